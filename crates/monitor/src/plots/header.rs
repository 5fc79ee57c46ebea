//! Title, subtitle and legend above the panels, where they cover no data.

use super::canvas::{Canvas, Lettering, Stroke, palette};
use super::sign::draw_sign;
use crate::PlanSource;

/// What a legend entry shows before its text.
#[derive(Clone, Copy)]
pub(super) enum Mark {
    /// A horizontal line.
    Line(Stroke),
    /// A horizontal line over a filled area.
    Area(Stroke),
    /// A dot.
    Dot(Stroke),
    /// An upright line.
    Vertical(Stroke),
    /// A cross.
    Cross(Stroke),
    /// A hatched rectangle.
    Hatched(Stroke),
    /// A cell with the sign of a source, which may be none.
    Source(PlanSource),
}

/// Left and right margin in pixels.
pub(super) const MARGIN: f64 = 24.0;
/// Width of a legend entry's mark.
const MARK: f64 = 30.0;
/// Height of a row of the legend.
const ROW: f64 = 30.0;

/// Draws title, subtitle and legend; returns where the panels may begin.
pub(super) fn header(canvas: &Canvas, title: &str, subtitle: String, legend: &[(Mark, String)]) -> f64 {
    canvas.text(title, (MARGIN, 32.0), Lettering::TITLE);
    let room = canvas.size.0 - 2.0 * MARGIN;
    canvas.text(&Lettering::QUIET.fitting(subtitle, room), (MARGIN, 66.0), Lettering::QUIET);
    legend_below(canvas, 82.0, legend)
}

/// Draws a legend; returns where the panels may begin.
pub(super) fn legend_below(canvas: &Canvas, top: f64, legend: &[(Mark, String)]) -> f64 {
    let (mut x, mut y) = (MARGIN, top + 20.0);
    for (mark, label) in legend {
        let width = MARK + 10.0 + Lettering::LABEL.width(label);
        if canvas.size.0 - MARGIN < x + width {
            (x, y) = (MARGIN, y + ROW);
        }
        draw_mark(canvas, *mark, x, y);
        canvas.text(label, (x + MARK + 10.0, y), Lettering::LABEL);
        x += width + 28.0;
    }
    if legend.is_empty() { top } else { y + 16.0 }
}

fn draw_mark(canvas: &Canvas, mark: Mark, x: f64, y: f64) {
    let (end, middle) = (x + MARK, x + MARK / 2.0);
    match mark {
        Mark::Line(stroke) => canvas.line(&[(x, y), (end, y)], stroke),
        Mark::Area(stroke) => {
            canvas.fill(&[(x, y), (end, y), (end, y + 9.0), (x, y + 9.0)], stroke.color.faint(0.3));
            canvas.line(&[(x, y), (end, y)], stroke);
        }
        Mark::Dot(stroke) => canvas.dot((middle, y), 4.5, stroke.color),
        Mark::Vertical(stroke) => canvas.line(&[(middle, y - 11.0), (middle, y + 11.0)], stroke),
        Mark::Cross(stroke) => canvas.cross((middle, y), 7.0, stroke),
        Mark::Hatched(stroke) => canvas.hatched([(x, y - 10.0), (end, y + 10.0)], stroke),
        Mark::Source(source) => {
            canvas.rectangle([(x, y - 10.0), (end, y + 10.0)], palette::GRID);
            draw_sign(canvas, source, (end - 8.0, y - 2.0), palette::INK);
        }
    }
}
