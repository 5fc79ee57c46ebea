//! One coordinate system of a picture: frame, grid, labels and what is drawn inside.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::SIZE;
use super::axis::Axis;
use super::canvas::{Canvas, Drawn, Lettering, Point, Stroke, palette};
use super::header::MARGIN;

/// Left and right edge of a panel that is as wide as the picture, in pixels.
pub(super) const EDGES: (f64, f64) = (112.0, SIZE.0 as f64 - 40.0);
/// Room below the lowest panel for the labels and the name of its x axis.
pub(super) const FOOT: f64 = 74.0;
/// Room above a panel for its heading.
pub(super) const HEAD: f64 = 45.0;
/// Up to so many points are drawn as dots too.
const MAX_DOTS: usize = 60;

/// Up to so many vertical lines go through the whole panel.
const MAX_VERTICALS: usize = 40;

/// A coordinate system at its place.
pub(super) struct Panel<'a> {
    heading: String,
    x: &'a Axis,
    y: Axis,
    sides: (f64, f64),
    top: f64,
    bottom: f64,
}

/// Divides what lies below `top` among panels of these shares; gives the upper and lower edge of each.
pub(super) fn stack<const N: usize>(top: f64, shares: [f64; N]) -> [(f64, f64); N] {
    let room = f64::from(SIZE.1) - FOOT - top - HEAD * N as f64;
    let mut above = top;
    shares.map(|share| {
        let upper = above + HEAD;
        above = upper + share * room;
        (upper, above)
    })
}

impl<'a> Panel<'a> {
    pub(super) fn new(heading: impl Into<String>, x: &'a Axis, y: Axis, (top, bottom): (f64, f64)) -> Self {
        Self { heading: heading.into(), x, y, sides: EDGES, top, bottom }
    }

    /// Puts the panel between other edges than those of the picture.
    pub(super) fn between(self, sides: (f64, f64)) -> Self {
        Self { sides, ..self }
    }

    /// Draws grid, heading and labels; the lowest panel of a picture also shows the steps.
    pub(super) fn frame<B: DrawingBackend>(&self, canvas: &Canvas<B>, lowest: bool) -> Drawn<B> {
        let grid = Stroke::solid(palette::GRID, 1.0);
        for (value, label) in self.y.ticks() {
            let y = self.at((0.0, value)).1;
            canvas.line(&[(self.sides.0, y), (self.sides.1, y)], grid)?;
            canvas.text(&label, (self.sides.0 - 10.0, y), Lettering::QUIET.at(HPos::Right))?;
        }
        for (value, label) in self.x.ticks() {
            let x = self.at((value, 0.0)).0;
            canvas.line(&[(x, self.top), (x, self.bottom)], grid)?;
            if lowest {
                canvas.text(&label, (x, self.bottom + 18.0), Lettering::QUIET.at(HPos::Center))?;
            }
        }
        if lowest {
            let middle = f64::midpoint(self.sides.0, self.sides.1);
            canvas.text("step", (middle, self.bottom + 46.0), Lettering::LABEL.at(HPos::Center))?;
        }
        let left = self.sides.0 - EDGES.0 + MARGIN;
        canvas.text(&self.heading, (left, self.top - 23.0), Lettering::HEADING)?;
        let corners = [(self.sides.0, self.top), (self.sides.0, self.bottom), (self.sides.1, self.bottom)];
        canvas.line(&corners, Stroke::solid(palette::GREY, 1.0))
    }

    pub(super) fn line<B: DrawingBackend>(&self, canvas: &Canvas<B>, points: &[Point], stroke: Stroke) -> Drawn<B> {
        canvas.line(&self.all(points), stroke)
    }

    /// Draws the points of a short line, so that a single one can be seen.
    pub(super) fn dots<B: DrawingBackend>(&self, canvas: &Canvas<B>, points: &[Point], color: RGBColor) -> Drawn<B> {
        if MAX_DOTS < points.len() {
            return Ok(());
        }
        self.all(points).into_iter().try_for_each(|it| canvas.dot(it, 3.5, color))
    }

    /// Fills what lies between a line and the bottom of the panel.
    pub(super) fn area<B: DrawingBackend>(&self, canvas: &Canvas<B>, points: &[Point], color: RGBAColor) -> Drawn<B> {
        let mut corners = self.all(points);
        let (Some(first), Some(last)) = (corners.first().copied(), corners.last().copied()) else { return Ok(()) };
        corners.extend([(last.0, self.bottom), (first.0, self.bottom)]);
        canvas.fill(&corners, color)
    }

    /// Fills what lies between two lines.
    pub(super) fn band<B: DrawingBackend>(
        &self,
        canvas: &Canvas<B>,
        lower: &[Point],
        upper: &[Point],
        color: RGBAColor,
    ) -> Drawn<B> {
        let corners: Vec<Point> = self.all(lower).into_iter().chain(self.all(upper).into_iter().rev()).collect();
        canvas.fill(&corners, color)
    }

    /// Draws vertical lines through the panel, or short ones at its top where many would hide it.
    pub(super) fn verticals<B: DrawingBackend>(&self, canvas: &Canvas<B>, steps: &[f64], stroke: Stroke) -> Drawn<B> {
        let (bottom, stroke) = if steps.len() <= MAX_VERTICALS {
            (self.bottom, stroke)
        } else {
            (self.top + 12.0, Stroke { dash: None, ..stroke })
        };
        steps
            .iter()
            .map(|it| self.at((*it, 0.0)).0)
            .try_for_each(|x| canvas.line(&[(x, self.top), (x, bottom)], stroke))
    }

    /// Writes a remark into the middle of the panel, where there is nothing to draw.
    pub(super) fn remark<B: DrawingBackend>(&self, canvas: &Canvas<B>, text: &str) -> Drawn<B> {
        let middle = (f64::midpoint(self.sides.0, self.sides.1), f64::midpoint(self.top, self.bottom));
        canvas.text(text, middle, Lettering::QUIET.at(HPos::Center))
    }

    /// Returns the position of a value in the picture.
    pub(super) fn at(&self, (x, y): Point) -> Point {
        let (across, up) = (self.x.place(x), self.y.place(y));
        (self.sides.0 + across * (self.sides.1 - self.sides.0), self.bottom - up * (self.bottom - self.top))
    }

    fn all(&self, points: &[Point]) -> Vec<Point> {
        points.iter().map(|it| self.at(*it)).collect()
    }
}
