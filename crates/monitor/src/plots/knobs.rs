//! What a policy turned, below the memory: one value, or a range where a step has micro-batches of several edges.

use super::axis::Axis;
use super::canvas::{Canvas, Stroke, palette};
use super::panel::{Panel, Place};
use super::series::{stairs, thin};
use crate::history::{History, Move};
use crate::series::Series;

/// The panels of a run's knobs.
pub(super) struct Knobs<'a> {
    pub(super) history: &'a History,
    pub(super) x: &'a Axis,
    /// The steps at which something changed, and how they are shown.
    pub(super) adjustments: (&'a [f64], Stroke),
    /// Where the last step ends.
    pub(super) end: f64,
}

/// Where a panel lies, the name of its x axis where it has one, and whether it has labels at the left.
type Framed<'a> = (Place, Option<&'a str>, bool);

impl Knobs<'_> {
    /// Draws both panels, the lower with the name of the x axis; those that are not first have no labels at the left.
    pub(super) fn draw(&self, canvas: &Canvas, [upper, lower]: [Place; 2], x_name: &str, is_first: bool) {
        let (knobs, unit) = (&self.history.curves.knobs, self.history.unit_of_length());
        let (is_by_length, batch) = (self.is_by_length(), self.history.unit_of_batch());
        // Of batches that are sized by length, a patch is none, even where all have one.
        let (heading, edges) = if knobs.are_rows {
            (format!("row length ({unit})"), knobs.edges.each_ref())
        } else if !is_by_length && !knobs.are_edges_mixed {
            (format!("patch size ({unit})"), [&knobs.patch_size; 2])
        } else {
            (format!("padded length ({unit}): range"), knobs.edges.each_ref())
        };
        self.panel(canvas, &heading, edges, (upper, None, is_first));
        let (heading, sizes) = if is_by_length {
            (format!("micro-batch size ({batch}): range"), knobs.sizes.each_ref())
        } else {
            (format!("micro-batch size ({batch})"), [&knobs.micro_batch_size; 2])
        };
        self.panel(canvas, &heading, sizes, (lower, Some(x_name), is_first));
    }

    /// Draws the least and the most of something at each step.
    fn panel(&self, canvas: &Canvas, heading: &str, range: [&Series; 2], (place, x_name, is_first): Framed<'_>) {
        let highest = range[1].range().map_or(1.0, |it| it.1.max(1.0));
        let heading = if is_first { heading } else { "" };
        let panel = Panel::new(heading, self.x, Axis::whole(0.0, 1.2 * highest, 3), place);
        panel.frame_over(canvas, x_name, is_first);
        panel.verticals(canvas, self.adjustments.0, self.adjustments.1);
        let [low, high] = range.map(|it| thin(stairs(it.until(self.end), self.end)));
        if low != high {
            panel.band(canvas, &low, &high, palette::GREEN.faint(0.2));
            panel.line(canvas, &low, Stroke::solid(palette::GREEN, 1.6));
        }
        panel.line(canvas, &high, Stroke::solid(palette::GREEN, 2.4));
    }

    /// Whether a policy sizes batches by length, and what of them has run.
    ///
    /// What it allows at a length is not what runs: a step need not hold as many samples of it.
    fn is_by_length(&self) -> bool {
        let History { policy, incidents, curves, .. } = self.history;
        let is_resized = || incidents.moves.iter().any(|(_, it)| matches!(it, Move::Sizes(_)));
        (is_resized() || !policy.cells.is_empty()) && !curves.knobs.sizes[0].is_empty()
    }
}
