//! A real step of chosen samples.

use std::time::Instant;

use plimsoll_guard::GuardError;
use plimsoll_types::{Attempt, Budget, Bytes, MemoryReading, StepShape};

use super::{Trial, TrialError, Trials};
use crate::config::OptimizerRecovery;
use crate::job::Job;
use crate::source::{Draw, Source};
use crate::step::{StepError, StepOutcome, StepPart, StepRequest};
use crate::stopwatch::Stopwatch;

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
        let start = Instant::now();
        let (job, device) = (self.job, &self.device);
        let model = self.model.take().unwrap_or_else(|| job.init(device));
        let request = self.request(&model, draw, lengths, most);
        let task_weights = vec![1.0; job.tasks().len()];
        let mean_loss = |model: &J::Model, range| job.mean_loss(model, job.batch(buffer, range, device), &task_weights);
        let outcome = self.guarded.run(&model, &request, &|_, _| None, &mean_loss, &mut Stopwatch::with_capacity(1));
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

    fn request(&self, model: &J::Model, draw: &Draw, lengths: &[u32], most: u32) -> StepRequest {
        StepRequest {
            micro_batches: draw.micro_batches(most),
            units: self.job.unit().of(lengths),
            task_probes: self.job.task_probes(model),
            budget: Budget { capacity: self.capacity, budget: self.capacity },
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
        self.model = Some(self.optimizer.step(0.0, model, gradients));
        drop(kept);
        let MemoryReading { in_use, reserved, peak: with_optimizer, .. } = self.guarded.read()?;
        let (peak, seconds) = (peak.max(with_optimizer), start.elapsed().as_secs_f64());
        Ok(Ran { trial: Trial { shape, resident, in_use, reserved, peak, seconds }, failures })
    }
}
