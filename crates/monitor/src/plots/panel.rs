//! One coordinate system of a picture: frame, grid, labels and what is drawn inside.

use super::axis::Axis;
use super::canvas::{Anchor, Canvas, Color, Fill, Lettering, Point, Stroke, palette};
use super::header::MARGIN;
use super::series::thin;

/// Left edge of a panel that is as wide as the picture, in pixels: the labels of its y axis have room there.
pub(super) const LEFT: f64 = 112.0;
/// Room at the right of a panel.
pub(super) const RIGHT: f64 = 40.0;
/// Room below the lowest panel for the labels and the name of its x axis.
pub(super) const FOOT: f64 = 74.0;
/// Room above a panel for its heading.
pub(super) const HEAD: f64 = 45.0;
/// Up to so many points are drawn as dots too.
const MAX_DOTS: usize = 60;
/// Up to so many vertical lines go through the whole panel.
const MAX_VERTICALS: usize = 40;
/// Room from one label beside a panel to the next.
const LINE: f64 = 19.0;
/// Room that a label below a panel keeps from the edge of the picture.
const EDGE: f64 = 6.0;
/// Room between two labels below a panel.
const GAP: f64 = 12.0;

/// Where a panel lies, in pixels.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Left and right edge.
    pub(super) sides: (f64, f64),
    /// Upper and lower edge.
    pub(super) heights: (f64, f64),
}

/// A coordinate system at its place.
pub(super) struct Panel<'a> {
    heading: String,
    x: &'a Axis,
    y: Axis,
    place: Place,
}

/// Divides what lies below `top` among panels of these shares, as wide as the picture.
pub(super) fn stack<const N: usize>(canvas: &Canvas, top: f64, shares: [f64; N]) -> [Place; N] {
    let room = canvas.size.1 - FOOT - top - HEAD * N as f64;
    let mut above = top;
    shares.map(|share| {
        let upper = above + HEAD;
        above = upper + share * room;
        Place { sides: (LEFT, canvas.size.0 - RIGHT), heights: (upper, above) }
    })
}

/// Writes labels below a panel at their positions: all of them, or every second, third and so on, so that each has room.
pub(super) fn label_below(canvas: &Canvas, bottom: f64, labels: &[(f64, String)]) {
    let half = |label: &str| Lettering::QUIET.width(label) / 2.0;
    let has_room = |every: &usize| {
        let kept: Vec<_> = labels.iter().step_by(*every).collect();
        kept.windows(2).all(|it| it[0].0 + half(&it[0].1) + GAP <= it[1].0 - half(&it[1].1))
    };
    let every = (1..labels.len()).find(has_room).unwrap_or(labels.len().max(1));
    for (x, label) in labels.iter().step_by(every) {
        // The last of a long run has no room to its right.
        let x = x.min(canvas.size.0 - half(label) - EDGE);
        canvas.text(label, (x, bottom + 18.0), Lettering::QUIET.at(Anchor::Middle));
    }
}

impl Place {
    /// Puts the panel between other edges than those of the picture.
    pub(super) const fn between(self, sides: (f64, f64)) -> Self {
        Self { sides, ..self }
    }
}

impl<'a> Panel<'a> {
    pub(super) fn new(heading: impl Into<String>, x: &'a Axis, y: Axis, place: Place) -> Self {
        Self { heading: heading.into(), x, y, place }
    }

    /// Draws grid, heading and labels; the lowest panel of a picture also shows the steps.
    pub(super) fn frame(&self, canvas: &Canvas, lowest: bool) {
        self.frame_over(canvas, lowest.then_some("step"), true);
    }

    /// Draws grid, heading and labels; those of the x axis where it has a name, and those of the y axis where no panel at the
    /// left has them.
    pub(super) fn frame_over(&self, canvas: &Canvas, x_name: Option<&str>, is_first: bool) {
        let Place { sides: (left, right), heights: (top, bottom) } = self.place;
        let grid = Stroke::solid(palette::GRID, 1.0);
        let mut free = f64::INFINITY;
        for (value, label) in self.y.ticks() {
            let y = self.at((0.0, value)).1;
            canvas.line(&[(left, y), (right, y)], grid);
            if is_first && y <= free {
                free = y - LINE;
                canvas.text(&label, (left - 10.0, y), Lettering::QUIET.at(Anchor::Right));
            }
        }
        for (value, _) in self.x.ticks() {
            let x = self.at((value, 0.0)).0;
            canvas.line(&[(x, top), (x, bottom)], grid);
        }
        if let Some(name) = x_name {
            self.label_x(canvas, name);
        }
        let start = if is_first { left - LEFT + MARGIN } else { left };
        let heading = Lettering::HEADING.fitting(self.heading.clone(), canvas.size.0 - RIGHT - start);
        canvas.text(&heading, (start, top - 23.0), Lettering::HEADING);
        canvas.line(&[(left, top), (left, bottom), (right, bottom)], Stroke::solid(palette::GREY, 1.0));
    }

    /// Writes the values below the panel, as many at equal distances as have room, and the name of the axis.
    fn label_x(&self, canvas: &Canvas, name: &str) {
        let Place { sides: (left, right), heights: (_, bottom) } = self.place;
        let labels: Vec<_> = self.x.ticks().map(|(value, label)| (self.at((value, 0.0)).0, label)).collect();
        label_below(canvas, bottom, &labels);
        let name = Lettering::LABEL.fitting(name.to_owned(), canvas.size.0 - 2.0 * EDGE);
        let half = Lettering::LABEL.width(&name) / 2.0;
        let middle = f64::midpoint(left, right).min(canvas.size.0 - half - EDGE);
        canvas.text(&name, (middle, bottom + 46.0), Lettering::LABEL.at(Anchor::Middle));
    }

    pub(super) fn line(&self, canvas: &Canvas, points: &[Point], stroke: Stroke) {
        canvas.line(&self.all(points), stroke);
    }

    /// Draws the points of a short line, so that a single one can be seen.
    pub(super) fn dots(&self, canvas: &Canvas, points: &[Point], color: Color) {
        if points.len() <= MAX_DOTS {
            self.scatter(canvas, points, color);
        }
    }

    /// Draws points, however many.
    pub(super) fn scatter(&self, canvas: &Canvas, points: &[Point], color: Color) {
        self.all(points).into_iter().for_each(|it| canvas.dot(it, 3.5, color));
    }

    /// Draws a bar from the bottom of the panel.
    pub(super) fn bar(&self, canvas: &Canvas, (from, to): (f64, f64), height: f64, color: Color) {
        let ((left, top), (right, bottom)) = (self.at((from, height)), self.at((to, 0.0)));
        canvas.rectangle([(left, top), (right, bottom)], color);
    }

    /// Fills what lies between a line and the bottom of the panel.
    pub(super) fn area(&self, canvas: &Canvas, points: &[Point], fill: Fill) {
        let mut corners = self.all(points);
        let (Some(first), Some(last)) = (corners.first().copied(), corners.last().copied()) else { return };
        corners.extend([(last.0, self.place.heights.1), (first.0, self.place.heights.1)]);
        canvas.fill(&corners, fill);
    }

    /// Fills what lies between two lines.
    pub(super) fn band(&self, canvas: &Canvas, lower: &[Point], upper: &[Point], fill: Fill) {
        let corners: Vec<Point> = self.all(lower).into_iter().chain(self.all(upper).into_iter().rev()).collect();
        if 2 < corners.len() {
            canvas.fill(&corners, fill);
        }
    }

    /// Hatches the whole height of the panel between two values.
    pub(super) fn hatched(&self, canvas: &Canvas, (from, to): (f64, f64), stroke: Stroke) {
        let Place { sides: (left, right), heights: (top, bottom) } = self.place;
        let [from, to] = [from, to].map(|it| self.at((it, 0.0)).0.clamp(left, right));
        if from < to {
            canvas.hatched([(from, top), (to, bottom)], stroke);
        }
    }

    /// Draws vertical lines through the panel, or short ones at its top where many would hide it, one in a pixel.
    pub(super) fn verticals(&self, canvas: &Canvas, steps: &[f64], stroke: Stroke) {
        let (top, bottom) = self.place.heights;
        let places = steps.iter().map(|it| self.at((*it, 0.0)).0);
        if steps.len() <= MAX_VERTICALS {
            return canvas.lines(places.map(|x| [(x, top), (x, bottom)]), stroke);
        }
        let mut places: Vec<f64> = places.map(f64::round).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let solid = Stroke { dash: None, ..stroke };
        canvas.lines(places.into_iter().map(|x| [(x, top), (x, top + 12.0)]), solid);
    }

    /// Draws crosses; of many in a neighbourhood the lowest and the highest.
    pub(super) fn crosses(&self, canvas: &Canvas, points: Vec<Point>, stroke: Stroke) {
        canvas.crosses(&self.all(&thin(points)), 7.0, stroke);
    }

    /// Writes a remark into the middle of the panel, where there is nothing to draw.
    pub(super) fn remark(&self, canvas: &Canvas, text: &str) {
        let Place { sides: (left, right), heights: (top, bottom) } = self.place;
        let middle = (f64::midpoint(left, right), f64::midpoint(top, bottom));
        canvas.text(text, middle, Lettering::QUIET.at(Anchor::Middle));
    }

    /// Returns the position of a value in the picture.
    pub(super) fn at(&self, (x, y): Point) -> Point {
        let Place { sides: (left, right), heights: (top, bottom) } = self.place;
        (left + self.x.place(x) * (right - left), bottom - self.y.place(y) * (bottom - top))
    }

    fn all(&self, points: &[Point]) -> Vec<Point> {
        points.iter().map(|it| self.at(*it)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_without_room_are_left_out_at_equal_distances() {
        let written = |distance: f64| {
            let canvas = Canvas::new((520.0, 360.0));
            let labels: Vec<_> = (0..9).map(|it| (distance * f64::from(it), (100 * it).to_string())).collect();
            label_below(&canvas, 300.0, &labels);
            let svg = canvas.into_svg();
            labels.into_iter().map(|it| it.1).filter(|it| svg.contains(&format!(">{it}<"))).collect::<Vec<_>>()
        };
        assert_eq!(written(60.0).len(), 9);
        assert_eq!(written(40.0), ["0", "200", "400", "600", "800"]);
        assert_eq!(written(1.0), ["0"]);
    }
}
