//! Real steps of a job, of chosen shapes.

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::Device;
use plimsoll_plan::{BlankTrials, Ran, RealSteps, Trial, TrialError};
use plimsoll_predict::{Keys, Phase};
use plimsoll_probe::Probe;
use plimsoll_step::{OptimizerRecovery, StepPart};
use plimsoll_types::{Bytes, Extent, StepShape};

use crate::device::uploaded;
use crate::first_samples::first_samples;
use crate::job::{Job, mean_loss};
use crate::loader::{LoaderConfig, LoaderError};
use crate::rehearsal::BlankJob;
use crate::source::{Draw, Source, SourceError};

/// Runs real steps of a job with a model and an optimizer of its own: to measure what a step needs, not to train.
///
/// The steps are those of a run: real samples, the guarded step, and the optimizer's step with a learning rate of zero.
pub struct Trials<'a, J: Job> {
    job: &'a J,
    source: Arc<J::Source>,
    device: Device,
    keys: Keys,
    blank: BlankTrials<BlankJob<'a, J>>,
    /// Those of a run's loader, where it is to be measured too.
    buffers: Vec<<J::Source as Source>::Buffer>,
    /// What each of them has room for.
    room: StepShape,
}

impl From<LoaderError> for TrialError {
    fn from(error: LoaderError) -> Self {
        Self::Input(Box::new(error))
    }
}

impl From<SourceError> for TrialError {
    fn from(error: SourceError) -> Self {
        Self::Input(Box::new(error))
    }
}

impl<'a, J: Job> Trials<'a, J> {
    /// Prepares for steps on a device, computed as the keys of their shapes say; the first one makes model and optimizer.
    ///
    /// # Errors
    ///
    /// [`TrialError::Step`] when the device does not tell its capacity.
    pub fn try_new(job: &'a J, device: Device, keys: Keys, probe: Box<dyn Probe>) -> Result<Self, TrialError> {
        let blank = BlankTrials::try_new(BlankJob::new(job, device.clone(), keys), probe)?;
        let (source, buffers, room) = (job.source(), Vec::new(), StepShape::new(0, 0));
        Ok(Self { job, source, device, keys, blank, buffers, room })
    }

    /// Keeps what a run with this recovery keeps while the optimizer steps.
    #[must_use]
    pub fn recovering(self, recovery: OptimizerRecovery) -> Self {
        Self { blank: self.blank.recovering(recovery), ..self }
    }

    /// Holds the host buffers that the loader of a run holds, so that what is resident is what it is in a run.
    ///
    /// # Errors
    ///
    /// [`LoaderError::BufferLimit`] when fewer than two steps fit into the limit.
    pub fn hold_buffers(&mut self, config: &LoaderConfig) -> Result<(), LoaderError> {
        self.room = config.largest(&self.source.lengths());
        self.buffers = config.buffers(&*self.source)?;
        Ok(())
    }

    /// Runs one optimizer step of blank parts of these shapes, in order; no sample is read.
    ///
    /// # Errors
    ///
    /// [`TrialError::OutOfMemory`] when a part did not fit in the end.
    pub fn blank_parts(&mut self, shapes: &[StepShape]) -> Result<Ran, TrialError> {
        self.blank.blank_parts(shapes)
    }

    /// Runs one optimizer step of collated samples as a run does: each part of the draw makes micro-batches of at most
    /// `most` samples, which are divided where they run out of memory; `units` is what each sample counts.
    ///
    /// # Errors
    ///
    /// [`TrialError::OutOfMemory`] when a single sample did not fit.
    pub fn step(
        &mut self,
        draw: &Draw,
        units: Vec<u64>,
        buffer: &<J::Source as Source>::Buffer,
        most: u32,
    ) -> Result<Ran, TrialError> {
        let (job, keys, parts) = (self.job, self.keys, draw.micro_batches(most));
        let (task_weights, whole) = (vec![1.0; job.tasks().len()], parts.clone());
        let mean_loss = |model: &J::Model, samples: Range<usize>| {
            let part = whole.iter().find(|it| it.samples.contains(&samples.start));
            let extent = part.map_or(Extent::new(0), |it| it.extent);
            let shape = StepPart { samples: samples.clone(), extent }.shape();
            let batch = |device: &Device| uploaded(job.batch(buffer, samples, device), device);
            mean_loss(job, keys.key(Phase::Train, shape), (model, &self.device), batch, &task_weights)
        };
        self.blank.take(parts, units, &mean_loss)
    }

    fn collate_and_step(
        &mut self,
        shape: StepShape,
        n_samples: u32,
        buffer: &mut <J::Source as Source>::Buffer,
    ) -> Result<Ran, TrialError> {
        let (draw, items) = first_samples(&*self.source, n_samples, shape.extent())?;
        self.source.collate(&draw, &items, buffer)?;
        let unit = self.job.unit();
        let units = items.iter().map(|it| unit.of(it)).collect();
        drop(items);
        self.step(&draw, units, buffer, shape.samples)
    }
}

impl<J: Job> RealSteps for Trials<'_, J> {
    fn train(&mut self, shape: StepShape, n_samples: u32) -> Result<Trial, TrialError> {
        let n_samples = n_samples.max(shape.samples);
        let has_room = self.room.covers(shape.with_samples(n_samples));
        let held = if has_room { self.buffers.pop() } else { None };
        let is_held = held.is_some();
        let mut buffer = held.unwrap_or_else(|| self.source.buffer(shape.with_samples(n_samples)));
        let ran = self.collate_and_step(shape, n_samples, &mut buffer);
        self.buffers.extend(Some(buffer).filter(|_| is_held));
        self.blank.whole(shape, ran?)
    }

    fn blank(&mut self, shape: StepShape) -> Result<Trial, TrialError> {
        self.blank.blank(shape)
    }

    fn infer(&mut self, shape: StepShape) -> Result<Trial, TrialError> {
        self.blank.infer(shape)
    }

    fn resident(&self) -> Result<Bytes, TrialError> {
        self.blank.resident()
    }

    fn forget(&mut self) -> Result<(), TrialError> {
        self.blank.forget()
    }
}
