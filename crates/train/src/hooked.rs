//! A job that somebody watches.

use std::ops::Range;
use std::sync::Arc;

use burn::module::ParamId;
use burn::tensor::{Device, Tensor};
use plimsoll_types::{Bytes, StepShape};

use crate::inference::Inference;
use crate::job::{Job, Loss, Unit, Validation};
use crate::source::{Draw, Lengths, Source, SourceError};
use crate::step::StepError;

/// Told what a run asks of its job, and free to make it fail: how recovery is put to the test.
pub trait Hooks: Send + Sync + 'static {
    /// A sample is about to be read.
    ///
    /// # Errors
    ///
    /// [`SourceError`] when it is not to be read.
    fn on_read(&self, epoch: u64, id: u64) -> Result<(), SourceError>;

    /// So many samples are about to run forward and backward together.
    fn on_part(&self, n_samples: usize);

    /// A validation is about to begin, or has ended.
    fn on_validation(&self, is_running: bool);
}

/// A job that is otherwise the one that it wraps.
#[derive(Debug)]
pub struct Hooked<'a, J, H> {
    /// The job.
    pub job: &'a J,
    /// Who is told.
    pub hooks: Arc<H>,
}

/// The samples of a job that is watched.
#[derive(Debug)]
pub struct HookedSource<S, H> {
    source: Arc<S>,
    hooks: Arc<H>,
}

impl<J: Job, H: Hooks> Job for Hooked<'_, J, H> {
    type Source = HookedSource<J::Source, H>;
    type Model = J::Model;
    type Batch = J::Batch;

    fn name(&self) -> &'static str {
        self.job.name()
    }

    fn program(&self) -> String {
        self.job.program()
    }

    fn fingerprint(&self) -> String {
        self.job.fingerprint()
    }

    fn source(&self) -> Arc<Self::Source> {
        Arc::new(HookedSource { source: self.job.source(), hooks: Arc::clone(&self.hooks) })
    }

    fn init(&self, device: &Device) -> J::Model {
        self.job.init(device)
    }

    fn unit(&self) -> Unit {
        self.job.unit()
    }

    fn tasks(&self) -> &[String] {
        self.job.tasks()
    }

    fn task_probes(&self, model: &J::Model) -> Vec<ParamId> {
        self.job.task_probes(model)
    }

    fn batch(&self, buffer: &<J::Source as Source>::Buffer, samples: Range<usize>, device: &Device) -> J::Batch {
        self.hooks.on_part(samples.len());
        self.job.batch(buffer, samples, device)
    }

    fn blank_batch(&self, shape: StepShape, device: &Device) -> J::Batch {
        self.job.blank_batch(shape, device)
    }

    fn mean_loss(&self, model: &J::Model, batch: J::Batch, task_weights: &[f32]) -> Loss {
        self.job.mean_loss(model, batch, task_weights)
    }

    fn blank_forward(&self, model: &J::Model, shape: StepShape, device: &Device) -> Tensor<1> {
        self.job.blank_forward(model, shape, device)
    }

    fn validate(
        &self,
        model: &J::Model,
        device: &Device,
        inference: &mut Inference<'_>,
    ) -> Result<Validation, StepError> {
        self.hooks.on_validation(true);
        let validation = self.job.validate(model, device, inference);
        self.hooks.on_validation(false);
        validation
    }
}

impl<S: Source, H: Hooks> Source for HookedSource<S, H> {
    type Item = S::Item;
    type Buffer = S::Buffer;

    fn n_samples(&self) -> u64 {
        self.source.n_samples()
    }

    fn lengths(&self) -> Lengths {
        self.source.lengths()
    }

    fn read(&self, epoch: u64, id: u64) -> Result<S::Item, SourceError> {
        self.hooks.on_read(epoch, id)?;
        self.source.read(epoch, id)
    }

    fn buffer_bytes(&self, largest: StepShape) -> Bytes {
        self.source.buffer_bytes(largest)
    }

    fn buffer(&self, largest: StepShape) -> S::Buffer {
        self.source.buffer(largest)
    }

    fn collate(&self, draw: &Draw, items: &[S::Item], buffer: &mut S::Buffer) -> Result<(), SourceError> {
        self.source.collate(draw, items, buffer)
    }
}
