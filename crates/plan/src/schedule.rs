//! What a run of mixed shapes holds.

use plimsoll_predict::Correction;
use plimsoll_types::{Bytes, StepShape};
use serde::{Deserialize, Serialize};

use crate::{Act, DryRunPlanner, NSamples, PlanError, Program, Rehearsal, micro_batches};

/// The high-water mark of a run of mixed shapes, planned as a whole.
///
/// It is not that of the largest cell: pages of one shape serve the next one only where their sizes suit, and the size
/// of pages is fixed by the largest allocation so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Steps that were rehearsed.
    pub n_steps: usize,
    /// The shape with the largest single allocation, which runs first.
    pub first: StepShape,
    /// The most that is reserved where empty pages go back to the device before each change of the shape, as
    /// Plimsoll's own trainer does.
    pub high_water: Bytes,
    /// The most that is reserved where every page is kept.
    pub high_water_kept: Bytes,
    /// The same, if the steps ran as they were drawn, and not the largest allocation first.
    pub high_water_as_drawn: Bytes,
}

impl Schedule {
    /// Returns what running the largest allocation first saves where pages are kept.
    pub fn saved(&self) -> Bytes {
        self.high_water_as_drawn.saturating_sub(self.high_water_kept)
    }
}

impl DryRunPlanner {
    /// Plans a run of these shapes, each a step of as many samples as `n_samples` says: as drawn, and with `first` before all others.
    ///
    /// # Errors
    ///
    /// [`PlanError::NoCell`] without a shape, [`PlanError::ReadsValue`] when the step reads a value.
    pub fn schedule<P: Program>(
        &self,
        program: &P,
        drawn: &[StepShape],
        first: StepShape,
        n_samples: NSamples<'_>,
        correction: &Correction,
    ) -> Result<Schedule, PlanError> {
        if drawn.is_empty() {
            return Err(PlanError::NoCell);
        }
        let step = |shape: StepShape| Act::Train(micro_batches(shape, n_samples(shape)));
        let drawn: Vec<_> = drawn.iter().copied().map(step).collect();
        let first_first: Vec<_> = std::iter::once(step(first)).chain(drawn.iter().cloned()).collect();
        let returned = first_first.chunk_by(|a, b| a == b).flat_map(|same| same.iter().cloned().chain([Act::CleanUp]));
        let returned: Vec<_> = returned.collect();
        let most = |it: Rehearsal| {
            let upper = it.after.iter().map(|pools| correction.upper(pools.booked())).max().unwrap_or_default();
            upper.saturating_add(it.spare())
        };
        Ok(Schedule {
            n_steps: drawn.len(),
            first,
            high_water: most(self.rehearse(program, &returned)?),
            high_water_kept: most(self.rehearse(program, &first_first)?),
            high_water_as_drawn: most(self.rehearse(program, &drawn)?),
        })
    }
}
