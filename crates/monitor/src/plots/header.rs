//! Title, subtitle and legend above the panels, where they cover no data.

use plotters::prelude::*;

use super::SIZE;
use super::canvas::{Canvas, Drawn, Lettering, Stroke, palette};
use super::heat::draw_sign;
use crate::PlanSource;

/// What a legend entry shows before its text.
#[derive(Clone, Copy)]
pub(super) enum Mark {
    /// A horizontal line.
    Line(Stroke),
    /// A horizontal line over a filled area.
    Area(Stroke),
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
pub(super) fn header<B: DrawingBackend>(
    canvas: &Canvas<B>,
    title: &str,
    subtitle: String,
    legend: &[(Mark, String)],
) -> Drawn<B, f64> {
    canvas.text(title, (MARGIN, 32.0), Lettering::TITLE)?;
    let room = f64::from(SIZE.0) - 2.0 * MARGIN;
    canvas.text(&fitting(canvas, subtitle, Lettering::QUIET, room), (MARGIN, 66.0), Lettering::QUIET)?;
    let (mut x, mut y) = (MARGIN, 102.0);
    for (mark, label) in legend {
        let width = MARK + 10.0 + canvas.text_width(label, Lettering::LABEL);
        if f64::from(SIZE.0) - MARGIN < x + width {
            (x, y) = (MARGIN, y + ROW);
        }
        draw_mark(canvas, *mark, x, y)?;
        canvas.text(label, (x + MARK + 10.0, y), Lettering::LABEL)?;
        x += width + 28.0;
    }
    Ok(y + 16.0)
}

fn draw_mark<B: DrawingBackend>(canvas: &Canvas<B>, mark: Mark, x: f64, y: f64) -> Drawn<B> {
    let (end, middle) = (x + MARK, x + MARK / 2.0);
    match mark {
        Mark::Line(stroke) => canvas.line(&[(x, y), (end, y)], stroke),
        Mark::Area(stroke) => {
            canvas.fill(&[(x, y), (end, y), (end, y + 9.0), (x, y + 9.0)], stroke.color.mix(0.3))?;
            canvas.line(&[(x, y), (end, y)], stroke)
        }
        Mark::Vertical(stroke) => canvas.line(&[(middle, y - 11.0), (middle, y + 11.0)], stroke),
        Mark::Cross(stroke) => canvas.cross((middle, y), 7.0, stroke),
        Mark::Hatched(stroke) => canvas.hatched([(x, y - 10.0), (end, y + 10.0)], stroke),
        Mark::Source(source) => {
            canvas.rectangle([(x, y - 10.0), (end, y + 10.0)], palette::GRID)?;
            draw_sign(canvas, source, (end - 8.0, y - 2.0), palette::INK)
        }
    }
}

/// Shortens a text that is wider than its room, in pixels.
pub(super) fn fitting<B: DrawingBackend>(
    canvas: &Canvas<B>,
    mut text: String,
    lettering: Lettering,
    room: f64,
) -> String {
    while room < canvas.text_width(&text, lettering) && 1 < text.chars().count() {
        let kept = text.chars().count().saturating_sub(4);
        text = text.chars().take(kept).chain(['…']).collect();
    }
    text
}
