//! A real step of chosen samples.

use std::ops::Range;
use std::time::Instant;

use plimsoll_guard::GuardError;
use plimsoll_probe::note_work;
use plimsoll_types::{Attempt, Budget, Bytes, MemoryReading, StepShape};

use super::{Trial, TrialError, Trials};
use crate::config::OptimizerRecovery;
use crate::job::Job;
use crate::source::{Draw, Source};
use crate::step::{MeanLoss, StepError, StepOutcome, StepPart, StepRequest};
use crate::stopwatch::Stopwatch;

/// Parts of a step of blank batches: the second finds the gradients of the first, and adds its own to them.
const ACCUMULATED: usize = 2;

/// What an optimizer step showed that may have been divided on the way.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    /// The step as it was in the end; its shape is that of the part with the most positions.
    pub trial: Trial,
    /// The micro-batches that ran out of memory.
    pub failures: Vec<Attempt>,
}

impl<J: Job> Trials<'_, J> {
    /// Runs one optimizer step of collated samples as a run does: each part of the draw makes micro-batches of at most
    /// `most` samples, which are divided where they run out of memory.
    ///
    /// # Errors
    ///
    /// [`TrialError::OutOfMemory`] when a single sample did not fit.
    pub fn step(
        &mut self,
        draw: &Draw,
        lengths: &[u32],
        buffer: &<J::Source as Source>::Buffer,
        most: u32,
    ) -> Result<Ran, TrialError> {
        let (job, device) = (self.job, self.device.clone());
        let task_weights = vec![1.0; job.tasks().len()];
        let mean_loss =
            |model: &J::Model, range| job.mean_loss(model, job.batch(buffer, range, &device), &task_weights);
        self.take(draw.micro_batches(most), self.job.unit().of(lengths), &mean_loss)
    }

    /// Runs one optimizer step of blank batches of this shape, with as many parts as accumulate gradients the way a step
    /// of many does; no sample is read.
    ///
    /// # Errors
    ///
    /// [`TrialError::OutOfMemory`] when a part did not fit.
    pub fn blank(&mut self, shape: StepShape) -> Result<Trial, TrialError> {
        let (job, device, n) = (self.job, self.device.clone(), shape.samples as usize);
        let task_weights = vec![1.0; job.tasks().len()];
        let mean_loss =
            |model: &J::Model, _: Range<usize>| job.mean_loss(model, job.blank_batch(shape, &device), &task_weights);
        let parts = StepPart::divide(0..ACCUMULATED * n, shape.edge(), shape.samples).collect();
        let Ran { trial, failures } = self.take(parts, vec![1; ACCUMULATED * n], &mean_loss)?;
        self.within_capacity(Trial { shape, ..trial }, &failures)
    }

    /// Takes an optimizer step in these parts.
    fn take(
        &mut self,
        micro_batches: Vec<StepPart>,
        units: Vec<u64>,
        mean_loss: MeanLoss<'_, J::Model>,
    ) -> Result<Ran, TrialError> {
        let start = Instant::now();
        let model = self.model.take().unwrap_or_else(|| self.job.init(&self.device));
        let budget = Budget { capacity: self.capacity, budget: self.capacity };
        let request = StepRequest { micro_batches, units, task_probes: self.job.task_probes(&model), budget };
        let outcome = self.guarded.run(&model, &request, &|_, _| None, mean_loss, &mut Stopwatch::with_capacity(1));
        let shapes = request.micro_batches.iter().map(StepPart::shape);
        let shape = shapes.max_by_key(|it| it.positions()).unwrap_or(StepShape::new(0, 0));
        match outcome {
            Ok(outcome) => self.committed(model, outcome, shape, start),
            Err(StepError::NeverFits { source: GuardError::NeverFits { needed: peak, .. }, .. }) => {
                self.model = Some(model);
                Err(TrialError::OutOfMemory(Attempt { peak, ..Attempt::new(shape, Bytes::ZERO) }))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Takes a step that failed in parts, or passed the capacity, for one that ran out of memory.
    pub(super) fn within_capacity(&self, trial: Trial, failures: &[Attempt]) -> Result<Trial, TrialError> {
        let above = Some(Attempt { peak: Some(trial.peak), ..Attempt::new(trial.shape, trial.resident) });
        match failures.first().copied().or(above.filter(|_| self.capacity < trial.peak)) {
            Some(failure) => Err(TrialError::OutOfMemory(failure)),
            None => Ok(trial),
        }
    }

    /// Lets the optimizer step, and reads what it took.
    fn committed(
        &mut self,
        model: J::Model,
        outcome: StepOutcome,
        shape: StepShape,
        start: Instant,
    ) -> Result<Ran, TrialError> {
        let StepOutcome { gradients, resident, peak, .. } = outcome;
        let failures = self.guarded.take_failures();
        let kept = (self.recovery == OptimizerRecovery::Keep).then(|| (model.clone(), self.optimizer.clone()));
        note_work(format_args!("the optimizer's step"));
        self.model = Some(self.optimizer.step(0.0, model, gradients));
        drop(kept);
        let MemoryReading { in_use, reserved, peak: with_optimizer, .. } = self.guarded.read()?;
        let (peak, seconds) = (peak.max(with_optimizer), start.elapsed().as_secs_f64());
        Ok(Ran { trial: Trial { shape, resident, in_use, reserved, peak, seconds }, failures })
    }
}
