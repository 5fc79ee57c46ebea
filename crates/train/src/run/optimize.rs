//! The optimizer's step, and the way back when it runs out of memory.

use burn::optim::GradientsParams;
use plimsoll_step::{Commit, Update};
use plimsoll_types::{Bytes, Knobs, MemoryReading, Stage};

use super::Run;
use crate::error::TrainError;
use crate::job::Job;
use crate::stopwatch::Lap;

/// Optimizer's steps out of memory between two checkpoints after which the run gives up: it gets nowhere.
const MOST_RECOVERIES: u32 = 5;

/// How the optimizer's step ended.
pub(super) enum Optimized<T> {
    /// As it should, with this to say of it.
    Done(T),
    /// It ran out of memory.
    OutOfMemory {
        /// What it reached, where the device could say.
        peak: Option<Bytes>,
        /// Whether the state from before is there again.
        is_back: bool,
    },
}

impl<J: Job> Run<'_, J> {
    /// Lets the optimizer step, and reads the memory after it.
    pub(super) fn optimize(
        &mut self,
        rate: f64,
        gradients: GradientsParams,
    ) -> Result<Optimized<MemoryReading>, TrainError> {
        let (capacity, recovery) = (self.bound().capacity, self.config.optimizer_recovery);
        let update = Update { gradients, rate, capacity, recovery };
        let committed = self.below_line(|run| run.guarded.commit(&mut run.state, update))?;
        match committed.map_err(|source| TrainError::Step { step: self.step, source })? {
            Commit::Done { reading, probe_time, check_time } => {
                self.stopwatch.book(Lap::Probe, probe_time);
                self.stopwatch.book(Lap::Check, check_time);
                Ok(Optimized::Done(reading))
            }
            Commit::OutOfMemory { peak, is_back } => Ok(Optimized::OutOfMemory { peak, is_back }),
        }
    }

    /// Whether the weights are there, for all that is known: where a failure is never silent, they are.
    pub(super) fn has_weights(&mut self) -> Result<bool, TrainError> {
        let (guarded, model) = (&self.guarded, self.state.model());
        let is_whole = || Ok(guarded.probe().has_exact_peak() || guarded.weights_are_whole(model)?);
        let is_whole = self.stopwatch.time(Lap::Check, is_whole);
        is_whole.map_err(|source| TrainError::Step { step: self.step, source })
    }

    /// Prepares for the same step again, from the copy that was kept.
    ///
    /// # Errors
    ///
    /// [`TrainError::OptimizerNeverFits`] when the same step has failed so before, or too many have.
    pub(super) fn try_again(&mut self, rung: Knobs, peak: Option<Bytes>) -> Result<(), TrainError> {
        self.note_failure(peak, "the optimizer's step ran out of memory, and is taken again from a copy of the state")?;
        self.tell_policy(rung)
    }

    /// Goes back to the last checkpoint, because the weights are lost or were made with too much memory.
    ///
    /// # Errors
    ///
    /// As [`Self::try_again`].
    pub(super) fn go_back(&mut self, rung: Knobs, peak: Option<Bytes>) -> Result<(), TrainError> {
        let failure = "the optimizer's step ran out of memory, and the run went back to its last checkpoint";
        self.note_failure(peak, failure)?;
        self.return_to_last()?;
        (self.warn)(&format!("{failure}, of step {}", self.step));
        self.catch_up()?;
        self.tell_policy(rung)
    }

    fn note_failure(&mut self, peak: Option<Bytes>, failure: &str) -> Result<(), TrainError> {
        let (step, capacity) = (self.step, self.budget.capacity);
        self.n_recoveries += 1;
        if self.recovered.replace(step) == Some(step) || MOST_RECOVERIES < self.n_recoveries {
            return Err(TrainError::OptimizerNeverFits { step, peak, capacity });
        }
        self.record(failure.to_owned())?;
        self.guarded.give_back().map_err(|source| TrainError::Step { step, source })
    }

    fn tell_policy(&mut self, rung: Knobs) -> Result<(), TrainError> {
        if self.config.deterministic {
            return Ok(());
        }
        self.answer_failure(rung, Stage::Optimizer)
    }
}
