//! The optimizer's step, and the way back when it runs out of memory.

use burn::optim::{GradientsParams, ModuleOptimizer};
use plimsoll_probe::note_work;
use plimsoll_types::{Bytes, Knobs, MemoryReading, Stage};

use super::{Run, present};
use crate::config::OptimizerRecovery;
use crate::error::TrainError;
use crate::job::Job;
use crate::step::{StepError, unless_out_of_memory};
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
    ///
    /// What it ran out of memory with is no model any more, unless a copy was kept: that is back then.
    pub(super) fn optimize(
        &mut self,
        rate: f64,
        gradients: GradientsParams,
    ) -> Result<Optimized<MemoryReading>, TrainError> {
        let kept = self.kept();
        let stepped = self.below_line(|run| run.step_and_read(rate, gradients))?;
        let mut peak = None;
        if let Some(reading) = stepped.map_err(|source| TrainError::Step { step: self.step, source })? {
            let is_exact = self.guarded.probe().has_exact_peak();
            peak = Some(reading.peak).filter(|peak| is_exact && self.bound().capacity < *peak);
            // Without a copy there is no hurry: the next step cannot read a loss of lost weights.
            if peak.is_none() && (is_exact || kept.is_none() || self.has_whole_weights()?) {
                return Ok(Optimized::Done(reading));
            }
        }
        let is_back = kept.is_some();
        if let Some((model, optimizer)) = kept {
            (self.model, self.optimizer) = (Some(model), optimizer);
        }
        Ok(Optimized::OutOfMemory { peak, is_back })
    }

    /// Lets the optimizer step, and reads the memory after it; `None` when it ran out of memory.
    fn step_and_read(&mut self, rate: f64, gradients: GradientsParams) -> Result<Option<MemoryReading>, StepError> {
        let (optimizer, model, guarded) = (&mut self.optimizer, &mut self.model, &self.guarded);
        note_work(format_args!("the optimizer's step"));
        // CubeCL panics where it has no memory to pass a kernel its arguments, at the next call that waits for it: the
        // reading is one, so that the panic is not taken for that of the next forward pass.
        unless_out_of_memory(|| {
            *model = model.take().map(|model| optimizer.step(rate, model, gradients));
            self.stopwatch.time(Lap::Probe, || guarded.read())
        })
        .and_then(Option::transpose)
    }

    /// Whether the weights are there, for all that is known: where a failure is never silent, they are.
    pub(super) fn has_weights(&mut self) -> Result<bool, TrainError> {
        Ok(self.guarded.probe().has_exact_peak() || self.has_whole_weights()?)
    }

    /// Whether every weight can be read.
    fn has_whole_weights(&mut self) -> Result<bool, TrainError> {
        let (guarded, model) = (&self.guarded, present(self.model.as_ref()));
        let is_whole = self.stopwatch.time(Lap::Check, || guarded.weights_are_whole(model));
        is_whole.map_err(|source| TrainError::Step { step: self.step, source })
    }

    fn kept(&self) -> Option<(J::Model, ModuleOptimizer)> {
        let keeps = self.config.optimizer_recovery == OptimizerRecovery::Keep;
        keeps.then(|| (present(self.model.as_ref()).clone(), self.optimizer.clone()))
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
