//! Where the samples of an epoch stand.

use plimsoll_sampler::{PackStepPosition, PositionError, StepPosition};
use serde::{Deserialize, Serialize};

use super::error::BatchesError;

/// Where the next step begins, or the next batch of a loader: what a checkpoint needs to go on from there.
///
/// It takes 4 kB of JSON at most, and two numbers more for each task that has a share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    pub(super) step: StepPlace,
    /// Samples of the epoch that are handed out, or rows.
    pub(super) n_taken: usize,
    /// Those of them that belong to the step that comes next.
    pub(super) of_batch: usize,
    /// The first sample of the dataset that has a part in it.
    pub(super) first: usize,
    pub(super) is_of_loader: bool,
}

/// Where the next step of padded samples or of packed rows begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum StepPlace {
    Padded(StepPosition),
    Packed(PackStepPosition),
}

impl Position {
    /// The epoch of what comes next, from 0.
    pub fn epoch(&self) -> usize {
        let epoch = match &self.step {
            StepPlace::Padded(it) => it.epoch(),
            StepPlace::Packed(it) => it.epoch(),
        };
        usize::try_from(epoch).unwrap_or(usize::MAX)
    }

    /// How many items of that epoch are handed out: samples, or rows of them.
    pub const fn n_taken(&self) -> usize {
        self.n_taken
    }

    /// Refuses a position of others than those from this one on, of which so many may be taken, as far as the plan does not.
    pub(super) fn check(&self, first: usize, most: usize, is_of_loader: bool) -> Result<(), BatchesError> {
        if self.is_of_loader != is_of_loader {
            return Err(BatchesError::OtherPosition { is_of_loader: self.is_of_loader });
        }
        if self.first != first {
            let (taken, here) = (self.first as u64, first as u64);
            return Err(PositionError::OtherPlan { key: "first sample", taken, here }.into());
        }
        within("samples taken", self.n_taken, most)?;
        within("samples of a batch taken", self.of_batch, self.n_taken)
    }
}

fn within(key: &'static str, value: usize, most: usize) -> Result<(), BatchesError> {
    let (value, most) = (value as u64, most as u64);
    if value <= most { Ok(()) } else { Err(PositionError::BeyondEpoch { key, value, most }.into()) }
}
