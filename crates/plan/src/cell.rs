//! One cell of a plan.

use plimsoll_predict::{Phase, Source};
use plimsoll_types::{Bytes, Extent, Prediction, Recompute, StepShape, edge_or_edges};
use serde::{Deserialize, Serialize};

/// Whether a cell may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fit {
    /// Its upper bound is within the budget.
    Fits,
    /// Its upper bound is above the budget.
    OverBudget,
    /// One of its tensors is larger than the device serves, however much is free.
    NeverFits,
}

/// What a step of one shape needs, and how that is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedCell {
    /// Whether gradients are computed.
    pub phase: Phase,
    /// Samples of the micro-batch.
    pub batch: u32,
    /// Extent of a sample: pixels along a side, or positions along a sequence, or along each of several axes.
    #[serde(rename = "edge", with = "edge_or_edges")]
    pub extent: Extent,
    /// What stays in use between steps: parameters, the optimizer's state, and on a CPU all else that the program holds.
    pub resident: Bytes,
    /// The nodes of the step's graph; zero where that is small, and where the step has not run.
    #[serde(default, skip_serializing_if = "plimsoll_types::is_zero")]
    pub nodes: u64,
    /// The most that a product of matrices has packed until then, with what threads take beside the first; zero where that does
    /// not count in peaks.
    #[serde(default, skip_serializing_if = "plimsoll_types::is_zero")]
    pub packed: Bytes,
    /// What the allocator is expected to hold at the step's peak, everything resident and the correction included;
    /// without meaning where the cell never fits.
    pub reserved: Bytes,
    /// Upper bound of `reserved`.
    pub upper: Bytes,
    /// Expected reserved bytes in a run whose page size the cell with the largest single allocation has fixed, and
    /// their upper bound; `None` where pages do not matter, and for a cell that did not fit or that no run uses.
    pub in_run: Option<Prediction>,
    /// Expected peak of what live tensors hold; `None` on a device that reports none.
    pub in_use: Option<Bytes>,
    /// Upper bound of `in_use`.
    pub upper_in_use: Option<Bytes>,
    /// Size of the allocator's pages after the step, or zero where there are none.
    pub page: Bytes,
    /// The largest single allocation of the step, or zero where nothing tells.
    pub largest_allocation: Bytes,
    /// Where the figures come from.
    pub source: Source,
    /// Whether the cell may be used.
    pub fit: Fit,
    /// Wall time that planning the cell took, in milliseconds.
    pub planning_ms: f64,
}

impl PlannedCell {
    /// Returns the padded shape of the cell's micro-batch.
    pub const fn shape(&self) -> StepShape {
        StepShape::of(self.batch, self.extent)
    }

    /// Returns what a run under a budget is to know, or `None` where the cell does not fit or is no more than a bound.
    pub(crate) fn need(&self, budget: Bytes, recompute: Recompute) -> Option<PlannedNeed> {
        let (phase, shape, largest) = (self.phase, self.shape(), self.largest_allocation);
        let alone = Prediction { expected: self.reserved, upper: self.upper };
        let (it, resident) = match self.in_run {
            _ if self.fit == Fit::NeverFits => return None,
            Some(in_run) => (in_run, None),
            None if self.page == Bytes::ZERO && self.source == Source::Memo => (alone, Some(self.resident)),
            None if self.page == Bytes::ZERO => return None,
            // Planned under a smaller capacity, and not yet as a run finds it: another first step may cost a page.
            None => (Prediction { upper: self.upper.saturating_add(self.page), ..alone }, None),
        };
        let fits = resident.is_some() || it.upper <= budget;
        let (Prediction { expected, upper }, &Self { nodes, packed, .. }) = (it, self);
        let checkpointing = phase == Phase::Train && recompute.is_on(self.extent.edge());
        fits.then_some(PlannedNeed { phase, checkpointing, shape, expected, upper, largest, resident, nodes, packed })
    }
}

/// What a plan says of steps of one shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedNeed {
    /// Whether gradients are computed.
    pub phase: Phase,
    /// Whether activations are recomputed in the backward pass.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checkpointing: bool,
    /// Shape of the micro-batch.
    pub shape: StepShape,
    /// What the device is expected to reserve, everything resident included.
    pub expected: Bytes,
    /// Upper bound of that.
    pub upper: Bytes,
    /// The largest single allocation, or zero where nothing tells.
    pub largest: Bytes,
    /// What was resident when the step was measured, on a device without pages: what a step needs counts from there.
    /// `None` where pages were planned, which hold everything.
    pub resident: Option<Bytes>,
    /// The nodes of the step's graph, or zero where that is small.
    #[serde(default, skip_serializing_if = "plimsoll_types::is_zero")]
    pub nodes: u64,
    /// The most that a product of matrices has packed until then, with what threads take beside the first; zero where that does
    /// not count in peaks.
    #[serde(default, skip_serializing_if = "plimsoll_types::is_zero")]
    pub packed: Bytes,
}

/// Micro-batches beyond this many of one shape book nothing that fewer do not.
const DISTINCT: usize = 3;

/// Returns the micro-batches of an optimizer step of `n_samples`: full ones, and the ragged one last.
///
/// Of equal ones only three remain: the first has no gradients to add to, the second adds the first, and from then on
/// each finds the allocator as the one before it did.
pub fn micro_batches(shape: StepShape, n_samples: u32) -> Vec<StepShape> {
    let batch = shape.samples.clamp(1, n_samples.max(1));
    let (full, ragged) = (n_samples / batch, n_samples % batch);
    let mut parts = vec![shape.with_samples(batch); (full as usize).clamp(1, DISTINCT)];
    if ragged > 0 {
        parts.push(shape.with_samples(ragged));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_planned_with_its_ragged_part() {
        let samples =
            |batch, n| micro_batches(StepShape::new(batch, 8), n).iter().map(|it| it.samples).collect::<Vec<_>>();
        assert_eq!(samples(26, 32), [26, 6]);
        assert_eq!(samples(8, 32), [8, 8, 8]);
        assert_eq!(samples(5, 32), [5, 5, 5, 2]);
        assert_eq!(samples(64, 32), [32]);
        assert_eq!(samples(1, 1), [1]);
    }
}
