//! Lines and texts at positions in pixels of the finished picture.

use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::SCALE;
use super::pieces::{dashes, hatching};

/// Whether something could be drawn.
pub(super) type Drawn<B, T = ()> = Result<T, DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// A position in pixels from the upper left corner.
pub(super) type Point = (f64, f64);

/// Colours of Okabe and Ito, which people with any colour vision tell apart, and greys.
pub(super) mod palette {
    use plotters::style::RGBColor;

    pub(crate) const BLUE: RGBColor = RGBColor(0, 114, 178);
    /// [`SKY`] on white, lighter: an opaque colour, because a line may cross itself.
    pub(crate) const PALE_SKY: RGBColor = RGBColor(137, 203, 240);
    pub(crate) const SKY: RGBColor = RGBColor(86, 180, 233);
    pub(crate) const GREEN: RGBColor = RGBColor(0, 158, 115);
    pub(crate) const ORANGE: RGBColor = RGBColor(230, 159, 0);
    pub(crate) const VERMILLION: RGBColor = RGBColor(213, 94, 0);
    pub(crate) const PURPLE: RGBColor = RGBColor(204, 121, 167);
    pub(crate) const INK: RGBColor = RGBColor(34, 34, 34);
    pub(crate) const GREY: RGBColor = RGBColor(105, 105, 105);
    pub(crate) const GRID: RGBColor = RGBColor(228, 228, 228);
}

/// How a line looks.
#[derive(Clone, Copy)]
pub(super) struct Stroke {
    pub(super) color: RGBAColor,
    pub(super) width: f64,
    /// Pixels drawn and pixels left out, where the line is dashed.
    pub(super) dash: Option<(f64, f64)>,
}

impl Stroke {
    pub(super) fn solid(color: RGBColor, width: f64) -> Self {
        Self { color: color.to_rgba(), width, dash: None }
    }

    pub(super) fn dashed(color: RGBColor, width: f64) -> Self {
        Self { dash: Some((10.0, 6.0)), ..Self::solid(color, width) }
    }
}

/// How a text looks, and which of its corners its position is.
#[derive(Clone, Copy)]
pub(super) struct Lettering {
    size: f64,
    bold: bool,
    color: RGBColor,
    anchor: (HPos, VPos),
}

impl Lettering {
    pub(super) const TITLE: Self = Self::new(32.0, true, palette::INK);
    pub(super) const HEADING: Self = Self::new(23.0, true, palette::INK);
    pub(super) const LABEL: Self = Self::new(22.0, false, palette::INK);
    pub(super) const QUIET: Self = Self::new(22.0, false, palette::GREY);

    const fn new(size: f64, bold: bool, color: RGBColor) -> Self {
        Self { size, bold, color, anchor: (HPos::Left, VPos::Center) }
    }

    pub(super) const fn at(self, horizontal: HPos) -> Self {
        Self { anchor: (horizontal, self.anchor.1), ..self }
    }

    pub(super) const fn in_color(self, color: RGBColor) -> Self {
        Self { color, ..self }
    }

    pub(super) const fn sized(self, size: f64) -> Self {
        Self { size, ..self }
    }

    fn style(self, quirks: Quirks) -> TextStyle<'static> {
        let size = self.size * quirks.type_size * f64::from(SCALE);
        let style = if self.bold { FontStyle::Bold } else { FontStyle::Normal };
        let font = FontDesc::new(FontFamily::SansSerif, size, style);
        font.color(&self.color).pos(Pos::new(self.anchor.0, self.anchor.1))
    }
}

/// Where the backends of plotters draw the same thing differently.
///
/// In SVG a font of size 1.24 is one em high, and half the height of an x is above its centre line. In bitmaps a font
/// of size 1 has a line height of 1, which is 1.164 em for the built-in font, and sits too high.
///
/// SVG cuts sharp corners of a line off; bitmaps draw them as spikes of any length, so each piece of a line is drawn
/// alone there, with a dot on each corner.
///
/// What nobody draws on is transparent in SVG; bitmaps begin white.
#[derive(Clone, Copy)]
pub(super) struct Quirks {
    /// Factor to the size of the same type in SVG.
    type_size: f64,
    /// Part of the size by which the type goes down.
    type_drop: f64,
    /// Whether corners of a line become spikes.
    spikes: bool,
    /// Whether what nobody draws on is transparent.
    transparent: bool,
}

impl Quirks {
    pub(super) const SVG: Self = Self { type_size: 1.0, type_drop: 0.0, spikes: false, transparent: true };
    pub(super) const BITMAP: Self = Self { type_size: 1.164 / 1.24, type_drop: 0.14, spikes: true, transparent: false };
}

/// A picture being drawn.
pub(super) struct Canvas<B: DrawingBackend> {
    area: DrawingArea<B, Shift>,
    quirks: Quirks,
}

impl<B: DrawingBackend> Canvas<B> {
    pub(super) fn new(backend: B, quirks: Quirks) -> Self {
        Self { area: backend.into_drawing_area(), quirks }
    }

    pub(super) fn clear(&self) -> Drawn<B> {
        if self.quirks.transparent { self.area.fill(&WHITE) } else { Ok(()) }
    }

    pub(super) fn present(&self) -> Drawn<B> {
        self.area.present()
    }

    /// Writes a text whose middle is at the height of `at`.
    pub(super) fn text(&self, text: &str, (x, y): Point, lettering: Lettering) -> Drawn<B> {
        let y = y + self.quirks.type_drop * lettering.size;
        self.area.draw_text(text, &lettering.style(self.quirks), units((x, y)))
    }

    /// Returns the width of a text in pixels, which plotters knows for bitmaps.
    pub(super) fn text_width(&self, text: &str, lettering: Lettering) -> f64 {
        // The only error is a missing font, which drawing the text will report.
        let style = lettering.style(Quirks::BITMAP);
        let (width, _) = self.area.estimate_text_size(text, &style).unwrap_or_default();
        f64::from(width) / f64::from(SCALE)
    }

    pub(super) fn line(&self, points: &[Point], stroke: Stroke) -> Drawn<B> {
        match stroke.dash {
            None => self.path(points, stroke),
            Some(dash) => dashes(points, dash).iter().try_for_each(|it| self.path(it, stroke)),
        }
    }

    pub(super) fn fill(&self, corners: &[Point], color: RGBAColor) -> Drawn<B> {
        self.area.draw(&Polygon::new(corners.iter().copied().map(units).collect::<Vec<_>>(), color))
    }

    /// Fills an upright rectangle, which a bitmap does far sooner than other shapes.
    pub(super) fn rectangle(&self, corners: [Point; 2], color: RGBColor) -> Drawn<B> {
        self.area.draw(&Rectangle::new(corners.map(units), color.filled()))
    }

    /// Fills an upright rectangle with lines that rise to the right, on white.
    pub(super) fn hatched(&self, corners: [Point; 2], stroke: Stroke) -> Drawn<B> {
        self.rectangle(corners, WHITE)?;
        hatching(corners).iter().try_for_each(|it| self.path(it, stroke))
    }

    pub(super) fn dot(&self, at: Point, radius: f64, color: RGBColor) -> Drawn<B> {
        self.area.draw(&Circle::new(units(at), whole(radius), color.filled()))
    }

    pub(super) fn cross(&self, (x, y): Point, radius: f64, stroke: Stroke) -> Drawn<B> {
        self.path(&[(x - radius, y - radius), (x + radius, y + radius)], stroke)?;
        self.path(&[(x - radius, y + radius), (x + radius, y - radius)], stroke)
    }

    fn path(&self, points: &[Point], stroke: Stroke) -> Drawn<B> {
        let style = stroke.color.stroke_width(whole(stroke.width));
        let mut points: Vec<_> = points.iter().copied().map(units).collect();
        points.dedup();
        if points.len() < 2 {
            return Ok(());
        }
        if !self.quirks.spikes {
            return self.area.draw(&PathElement::new(points, style));
        }
        for corner in points.iter().skip(1).take(points.len() - 2) {
            self.area.draw(&Circle::new(*corner, style.stroke_width / 2, stroke.color.filled()))?;
        }
        points.windows(2).try_for_each(|pair| self.area.draw(&PathElement::new(pair.to_vec(), style)))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "positions lie near the picture, and a cast saturates")]
fn units((x, y): Point) -> (i32, i32) {
    let scale = f64::from(SCALE);
    ((x * scale).round() as i32, (y * scale).round() as i32)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "widths are small and positive")]
fn whole(pixels: f64) -> u32 {
    ((pixels * f64::from(SCALE)).round() as u32).max(1)
}
