//! A real step of chosen samples.

use std::ops::Range;
use std::time::Instant;

use plimsoll_guard::GuardError;
use plimsoll_probe::note_work;
use plimsoll_types::{Attempt, Budget, Bytes, MemoryReading, Observation, StepShape};

use super::{Trial, TrialError, Trials};
use crate::config::OptimizerRecovery;
use crate::job::Job;
use crate::source::{Draw, Source};
use crate::step::{MeanLoss, RanPart, StepError, StepOutcome, StepPart, StepRequest};
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
    /// What was read of each part that counts, in order, where peaks are exact.
    pub parts: Vec<Observation>,
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
        let Ran { trial, failures, .. } = self.blank_parts(&[shape; ACCUMULATED])?;
        self.within_capacity(Trial { shape, ..trial }, &failures)
    }

    /// Runs one optimizer step of blank parts of these shapes, in order; no sample is read.
    ///
    /// # Errors
    ///
    /// [`TrialError::OutOfMemory`] when a part did not fit in the end.
    pub fn blank_parts(&mut self, shapes: &[StepShape]) -> Result<Ran, TrialError> {
        let (job, device) = (self.job, self.device.clone());
        let task_weights = vec![1.0; job.tasks().len()];
        let starts = shapes.iter().scan(0, |end, it| Some(std::mem::replace(end, *end + it.samples as usize)));
        let part = |(start, it): (usize, &StepShape)| StepPart {
            samples: start..start + it.samples as usize,
            edge: it.edge(),
        };
        let parts: Vec<_> = starts.zip(shapes).map(part).collect();
        let of_parts = parts.clone();
        let mean_loss = |model: &J::Model, range: Range<usize>| {
            let at = of_parts.partition_point(|it| it.samples.end <= range.start);
            let shape = shapes[at].with_samples(u32::try_from(range.len()).unwrap_or(u32::MAX));
            job.mean_loss(model, job.blank_batch(shape, &device), &task_weights)
        };
        let n = parts.last().map_or(0, |it| it.samples.end);
        self.take(parts, vec![1; n], &mean_loss)
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
        let StepOutcome { gradients, resident, peak, parts, .. } = outcome;
        let read = |it: RanPart| Some(Observation { shape: it.part.shape(), resident: it.resident, peak: it.peak? });
        let parts: Vec<_> = parts.into_iter().filter_map(read).collect();
        let of_shape = parts.iter().filter(|it| it.shape == shape);
        let before_part = of_shape.max_by_key(|it| it.peak).map_or(resident, |it| it.resident);
        let failures = self.guarded.take_failures();
        let kept = (self.recovery == OptimizerRecovery::Keep).then(|| (model.clone(), self.optimizer.clone()));
        note_work(format_args!("the optimizer's step"));
        self.model = Some(self.optimizer.step(0.0, model, gradients));
        drop(kept);
        let MemoryReading { in_use, reserved, peak: with_optimizer, .. } = self.guarded.read()?;
        let (peak, seconds) = (peak.max(with_optimizer), start.elapsed().as_secs_f64());
        Ok(Ran { trial: Trial { shape, resident, in_use, reserved, peak, before_part, seconds }, failures, parts })
    }
}
