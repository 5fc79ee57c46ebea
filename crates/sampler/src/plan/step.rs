//! What one optimizer step takes.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::PlanError;

/// How much one optimizer step takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepSize {
    /// So many samples; the last step of an epoch takes what is left.
    Samples(u32),
    /// So many positions, tokens or frames say, on average: real lengths, without padding.
    /// A sample of several axes has as many as their product, such as the pixels of an image.
    /// Each step ends with the sample by which the epoch's sum reaches the next multiple, so that what one step has
    /// beyond it, the next ones lack.
    Positions(u64),
    /// Every batch is a step of its own, and the effective batch size varies.
    Batch,
}

/// One micro-batch of a step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StepBatch<const AXES: usize = 1> {
    /// The samples, no more than the capacity rule allows.
    pub ids: Vec<u64>,
    /// What each sample is padded to.
    pub cell: [u32; AXES],
}

/// The samples of one optimizer step, all of one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedStep<const AXES: usize = 1> {
    /// The epoch.
    pub epoch: u64,
    /// What the epoch has taken before this step, and with it: positions where they are counted, or else samples.
    pub span: Range<u64>,
    /// The micro-batches; the one with the most padded positions comes first.
    pub batches: Vec<StepBatch<AXES>>,
    /// Whether this is the last step of the epoch.
    pub ends_epoch: bool,
}

impl StepSize {
    pub(crate) const fn check(self) -> Result<(), PlanError> {
        match self {
            Self::Samples(0) => Err(PlanError::BelowOne { key: "samples of a step" }),
            Self::Positions(0) => Err(PlanError::BelowOne { key: "positions of a step" }),
            _ => Ok(()),
        }
    }

    /// Whether a step that takes so much of its epoch, as [`PlannedStep::span`] says, reaches the multiple of its size at which
    /// it ends; at the end of an epoch what is left may not. A batch is whole.
    pub fn is_whole(self, span: &Range<u64>) -> bool {
        self.end(span.start).is_none_or(|end| end <= span.end)
    }

    /// What a sample of these lengths counts for, which is cut where it is longer than its batch.
    pub(super) fn weight<const AXES: usize>(self, lengths: [u32; AXES], cell: [u32; AXES]) -> u64 {
        if matches!(self, Self::Positions(_)) {
            positions(std::array::from_fn::<_, AXES, _>(|axis| lengths[axis].min(cell[axis])))
        } else {
            1
        }
    }

    /// Where the step ends that begins here; a batch ends where it ends.
    pub(crate) fn end(self, start: u64) -> Option<u64> {
        let size = match self {
            Self::Samples(n) => n.into(),
            Self::Positions(n) => n,
            Self::Batch => return None,
        };
        Some((start / size).saturating_add(1).saturating_mul(size))
    }
}

impl<const AXES: usize> StepBatch<AXES> {
    /// Positions with the padding.
    pub fn padded(&self) -> u64 {
        positions(self.cell).saturating_mul(self.ids.len() as u64)
    }
}

/// The product of the lengths on all axes.
pub(super) fn positions<const AXES: usize>(lengths: [u32; AXES]) -> u64 {
    lengths.into_iter().fold(1, |n, length| n.saturating_mul(length.into()))
}
