//! The sign of where a figure comes from.

use super::canvas::{Canvas, Color, Point, Stroke};
use crate::PlanSource;

/// Draws the sign of a source: a dot for a memo, a cross for a certificate, nothing for a dry run.
pub(super) fn draw_sign(canvas: &Canvas, source: PlanSource, at: Point, color: Color) {
    match source {
        PlanSource::Memo => canvas.dot(at, 3.0, color),
        PlanSource::DryRun => {}
        PlanSource::Certificate => canvas.cross(at, 3.0, Stroke::solid(color, 1.5)),
    }
}
