//! What a policy turned, below the memory: one value, or a range where a step has micro-batches of several edges.

use plimsoll_types::StepDone;

use super::axis::Axis;
use super::canvas::{Canvas, Point, Stroke, palette};
use super::panel::{Panel, Place};
use super::series::{stairs, thin};
use crate::policy::Policy;
use crate::run::{Move, Run};

/// The panels of a run's knobs.
pub(super) struct Knobs<'a> {
    pub(super) run: &'a Run<'a>,
    pub(super) x: &'a Axis,
    /// The steps at which something changed, and how they are shown.
    pub(super) adjustments: (&'a [f64], Stroke),
    /// Where the last step ends.
    pub(super) end: f64,
}

/// The least and the most of something at a step.
type Range = (f64, [u32; 2]);
/// Where a panel lies, the name of its x axis where it has one, and whether it has labels at the left.
type Framed<'a> = (Place, Option<&'a str>, bool);

impl Knobs<'_> {
    /// Draws both panels, the lower with the name of the x axis; those that are not first have no labels at the left.
    pub(super) fn draw(&self, canvas: &Canvas, [upper, lower]: [Place; 2], x_name: &str, is_first: bool) {
        let single = |value: fn(&StepDone) -> u32| -> Vec<Range> {
            self.run.steps().map(|it| (it.step as f64, [value(it); 2])).collect()
        };
        let (edges, sizes, unit) = (self.edges(), self.sizes(), self.run.unit_of_length());
        // Of batches that are sized by length, a patch is none, even where all have one.
        let (heading, edges) = if sizes.is_empty() && edges.iter().all(|(_, [least, most])| least == most) {
            (format!("patch size ({unit})"), single(|it| it.rung.patch_size))
        } else {
            (format!("padded length ({unit}): range"), edges)
        };
        self.panel(canvas, &heading, &edges, (upper, None, is_first));
        let (heading, sizes) = if sizes.is_empty() {
            ("micro-batch size (samples)", single(|it| it.rung.micro_batch_size))
        } else {
            ("micro-batch size (samples): range", sizes)
        };
        self.panel(canvas, heading, &sizes, (lower, Some(x_name), is_first));
    }

    fn panel(&self, canvas: &Canvas, heading: &str, ranges: &[Range], (place, x_name, is_first): Framed<'_>) {
        let highest = ranges.iter().map(|it| it.1[1]).max().unwrap_or(1);
        let heading = if is_first { heading } else { "" };
        let panel = Panel::new(heading, self.x, Axis::whole(0.0, 1.2 * f64::from(highest.max(1)), 3), place);
        panel.frame_over(canvas, x_name, is_first);
        let shown = ranges.iter().filter(|it| it.0 <= self.end);
        panel.verticals(canvas, self.adjustments.0, self.adjustments.1);
        let [low, high] = [0, 1].map(|end| self.stairs(shown.clone().map(|it| (it.0, f64::from(it.1[end])))));
        if low != high {
            panel.band(canvas, &low, &high, palette::GREEN.faint(0.2));
            panel.line(canvas, &low, Stroke::solid(palette::GREEN, 1.6));
        }
        panel.line(canvas, &high, Stroke::solid(palette::GREEN, 2.4));
    }

    /// The fewest and the most positions that a sample of each step was padded or cut to: its edge, where it has one axis.
    fn edges(&self) -> Vec<Range> {
        let edges = |step: &StepDone| {
            let edges = || step.micro_batches.iter().map(|it| u32::try_from(it.edges.positions()).unwrap_or(u32::MAX));
            Some((step.step as f64, [edges().min()?, edges().max()?]))
        };
        self.run.steps().filter_map(edges).collect()
    }

    /// The smallest and the largest micro-batch of each step, where a policy sizes them by length; none elsewhere.
    ///
    /// What it allows at a length is not what runs: a step need not hold as many samples of it.
    fn sizes(&self) -> Vec<Range> {
        if !self.run.moves().any(|(_, it)| matches!(it, Move::Sizes(_))) && Policy::of(self.run).cells.is_empty() {
            return Vec::new();
        }
        let sizes = |step: &StepDone| {
            let sizes = || step.micro_batches.iter().map(|it| it.shape().samples);
            Some((step.step as f64, [sizes().min()?, sizes().max()?]))
        };
        self.run.steps().filter_map(sizes).collect()
    }

    fn stairs(&self, values: impl Iterator<Item = Point>) -> Vec<Point> {
        thin(stairs(values, self.end))
    }
}
