//! Lines and texts at positions in pixels, written as SVG.

mod hatching;

use std::cell::RefCell;
use std::fmt::Write;

use self::hatching::hatching;
use super::font;

/// A position in pixels from the upper left corner.
pub(super) type Point = (f64, f64);

/// Red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Color(pub(crate) u8, pub(crate) u8, pub(crate) u8);

/// Colours of Okabe and Ito, which people with any colour vision tell apart, and greys.
pub(crate) mod palette {
    use super::Color;

    pub(crate) const BLUE: Color = Color(0, 114, 178);
    /// [`SKY`] on white, lighter: an opaque colour, because a line may cross itself.
    pub(crate) const PALE_SKY: Color = Color(137, 203, 240);
    pub(crate) const SKY: Color = Color(86, 180, 233);
    pub(crate) const GREEN: Color = Color(0, 158, 115);
    pub(crate) const ORANGE: Color = Color(230, 159, 0);
    pub(crate) const VERMILLION: Color = Color(213, 94, 0);
    pub(crate) const PURPLE: Color = Color(204, 121, 167);
    pub(crate) const INK: Color = Color(34, 34, 34);
    pub(crate) const GREY: Color = Color(105, 105, 105);
    pub(crate) const GRID: Color = Color(228, 228, 228);
    pub(crate) const WHITE: Color = Color(255, 255, 255);
}

/// Colours that are read on white, each with the one that takes its place on black.
pub(crate) const DARK: [(Color, Color); 7] = [
    (palette::INK, Color(232, 232, 232)),
    (palette::GREY, Color(168, 173, 181)),
    (palette::GRID, Color(52, 56, 63)),
    (palette::BLUE, Color(86, 170, 240)),
    (palette::PALE_SKY, Color(58, 112, 150)),
    (palette::GREEN, Color(38, 190, 145)),
    (palette::VERMILLION, Color(255, 132, 60)),
];

impl Color {
    /// Writes the colour as SVG and CSS have it.
    pub(crate) fn hex(self) -> String {
        let Self(r, g, b) = self;
        format!("#{r:02X}{g:02X}{b:02X}")
    }

    /// Makes the colour show what is below it.
    pub(super) const fn faint(self, opacity: f64) -> Fill {
        Fill { color: self, opacity }
    }
}

/// How an area looks.
#[derive(Clone, Copy)]
pub(super) struct Fill {
    color: Color,
    /// From 0 to 1.
    opacity: f64,
}

/// How a line looks.
#[derive(Clone, Copy)]
pub(super) struct Stroke {
    pub(super) color: Color,
    pub(super) width: f64,
    /// Pixels drawn and pixels left out, where the line is dashed.
    pub(super) dash: Option<(f64, f64)>,
}

impl Stroke {
    pub(super) const fn solid(color: Color, width: f64) -> Self {
        Self { color, width, dash: None }
    }

    pub(super) const fn dashed(color: Color, width: f64) -> Self {
        Self { color, width, dash: Some((10.0, 6.0)) }
    }
}

/// Which end of a text its position is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Left,
    Middle,
    Right,
}

/// How a text looks, and which of its ends its position is.
#[derive(Clone, Copy)]
pub(super) struct Lettering {
    size: f64,
    bold: bool,
    color: Color,
    anchor: Anchor,
}

impl Lettering {
    pub(super) const TITLE: Self = Self::new(26.0, true, palette::INK);
    pub(super) const HEADING: Self = Self::new(19.0, true, palette::INK);
    pub(super) const LABEL: Self = Self::new(18.0, false, palette::INK);
    pub(super) const QUIET: Self = Self::new(18.0, false, palette::GREY);

    const fn new(size: f64, bold: bool, color: Color) -> Self {
        Self { size, bold, color, anchor: Anchor::Left }
    }

    pub(super) const fn at(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }

    pub(super) const fn in_color(self, color: Color) -> Self {
        Self { color, ..self }
    }

    pub(super) const fn sized(self, size: f64) -> Self {
        Self { size, ..self }
    }

    /// Returns the width of a text in pixels.
    pub(super) fn width(self, text: &str) -> f64 {
        self.size * font::width(text, self.bold)
    }

    /// Shortens a text that is wider than its room, in pixels.
    pub(super) fn fitting(self, mut text: String, room: f64) -> String {
        while room < self.width(&text) && 1 < text.chars().count() {
            let kept = text.chars().count().saturating_sub(4);
            text = text.chars().take(kept).chain(['…']).collect();
        }
        text
    }
}

/// A picture being drawn.
pub(super) struct Canvas {
    /// Width and height in pixels.
    pub(super) size: (f64, f64),
    elements: RefCell<String>,
}

impl Canvas {
    pub(super) fn new(size: (f64, f64)) -> Self {
        Self { size, elements: RefCell::default() }
    }

    /// Returns the picture as an SVG document, whose background is what is below it.
    pub(super) fn into_svg(self) -> String {
        let (width, height) = self.size;
        format!(
            "<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             xmlns=\"http://www.w3.org/2000/svg\" font-family=\"{}\">\n{}</svg>\n",
            font::FAMILY,
            self.elements.into_inner()
        )
    }

    /// Writes a text whose middle is at the height of `at`.
    pub(super) fn text(&self, text: &str, (x, y): Point, lettering: Lettering) {
        let Lettering { size, bold, color, anchor } = lettering;
        let weight = if bold { " font-weight=\"bold\"" } else { "" };
        let anchor = match anchor {
            Anchor::Left => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::Right => " text-anchor=\"end\"",
        };
        let (x, y) = (decimal(x), decimal(y + font::HALF_CAPITAL * size));
        let (fill, text) = (color.hex(), escaped(text));
        self.add(format_args!(
            "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" fill=\"{fill}\"{weight}{anchor}>{text}</text>"
        ));
    }

    pub(super) fn line(&self, points: &[Point], stroke: Stroke) {
        let mut places: Vec<_> = points.iter().map(|it| (decimal(it.0), decimal(it.1))).collect();
        places.dedup();
        if places.len() < 2 {
            return;
        }
        self.path(&places.iter().map(|(x, y)| format!("{x} {y}")).collect::<Vec<_>>().join("L"), stroke);
    }

    pub(super) fn fill(&self, corners: &[Point], Fill { color, opacity }: Fill) {
        let places: Vec<_> = corners.iter().map(|(x, y)| format!("{},{}", decimal(*x), decimal(*y))).collect();
        let (places, fill) = (places.join(" "), color.hex());
        self.add(format_args!("<polygon points=\"{places}\" fill=\"{fill}\" fill-opacity=\"{opacity}\"/>"));
    }

    /// Fills an upright rectangle.
    pub(super) fn rectangle(&self, [(left, top), (right, bottom)]: [Point; 2], color: Color) {
        let [x, y, width, height] = [left, top, right - left, bottom - top].map(decimal);
        let fill = color.hex();
        self.add(format_args!("<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{fill}\"/>"));
    }

    /// Covers an upright rectangle with lines that rise to the right.
    pub(super) fn hatched(&self, corners: [Point; 2], stroke: Stroke) {
        self.lines(hatching(corners), stroke);
    }

    /// Draws straight lines that look alike as one element, however many.
    pub(super) fn lines(&self, lines: impl IntoIterator<Item = [Point; 2]>, stroke: Stroke) {
        let lines = lines.into_iter().map(|ends| {
            let [(x0, y0), (x1, y1)] = ends.map(|(x, y)| (decimal(x), decimal(y)));
            format!("{x0} {y0}L{x1} {y1}")
        });
        let lines = lines.collect::<Vec<_>>().join("M");
        if !lines.is_empty() {
            self.path(&lines, stroke);
        }
    }

    pub(super) fn dot(&self, (x, y): Point, radius: f64, color: Color) {
        let (x, y, fill) = (decimal(x), decimal(y), color.hex());
        self.add(format_args!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"{fill}\"/>"));
    }

    pub(super) fn cross(&self, at: Point, radius: f64, stroke: Stroke) {
        self.crosses(&[at], radius, stroke);
    }

    /// Draws crosses that look alike, however many.
    pub(super) fn crosses(&self, at: &[Point], radius: f64, stroke: Stroke) {
        let arms = |(x, y): &Point| {
            let rising = |up: f64| [(x - radius, y + up * radius), (x + radius, y - up * radius)];
            [rising(-1.0), rising(1.0)]
        };
        self.lines(at.iter().flat_map(arms), stroke);
    }

    fn path(&self, places: &str, stroke: Stroke) {
        let (color, width) = (stroke.color.hex(), stroke.width);
        let dash = stroke.dash.map_or_else(String::new, |(on, off)| format!(" stroke-dasharray=\"{on} {off}\""));
        self.add(format_args!(
            "<path d=\"M{places}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{width}\"{dash} stroke-linejoin=\"round\"/>"
        ));
    }

    fn add(&self, element: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.elements.borrow_mut(), "{element}");
    }
}

/// Writes a position to a tenth of a pixel.
fn decimal(position: f64) -> String {
    let text = format!("{position:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// Writes a text as XML and HTML have it; what XML cannot hold is left out, and so are
/// the signs that would turn the text after them around.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for it in text.chars() {
        match it {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\u{FFFE}' | '\u{FFFF}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => escaped.push(' '),
            _ if it.is_control() => escaped.push(' '),
            _ => escaped.push(it),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_text() {
        let canvas = Canvas::new((10.0, 10.0));
        canvas.text("a < b & \"c\"\u{1}\u{FFFF}\u{202E}", (0.0, 0.0), Lettering::LABEL);
        let svg = canvas.into_svg();
        assert!(svg.contains(">a &lt; b &amp; &quot;c&quot;   </text>"), "{svg}");
    }

    #[test]
    fn a_text_that_has_no_room_is_shortened() {
        let long = "a name that is far too long for its place".to_owned();
        let short = Lettering::LABEL.fitting(long, 120.0);
        assert!(short.ends_with('…') && Lettering::LABEL.width(&short) <= 120.0, "{short}");
        assert_eq!(Lettering::LABEL.fitting("short".to_owned(), 120.0), "short");
    }
}
