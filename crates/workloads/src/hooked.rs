//! A job that somebody watches: how a program injects faults, or simulates a device.

use std::ops::Range;
use std::sync::Arc;

use burn::module::ParamId;
use burn::tensor::{Device, Tensor};
use plimsoll_train::{
    Draw, Inference, Job, JobOptimizer, Lengths, Loss, NamedSource, Source, SourceError, StepError, Unit, Validation,
};
use plimsoll_types::{Bytes, Extent, Features, StepShape};

/// Told what a run asks of its job, and free to make it fail: how recovery is put to the test.
///
/// Whatever is not defined does nothing.
pub trait Hooks: Send + Sync + 'static {
    /// A sample is about to be read.
    ///
    /// # Errors
    ///
    /// [`SourceError`] when it is not to be read.
    fn on_read(&self, epoch: u64, id: u64) -> Result<(), SourceError> {
        let _ = (epoch, id);
        Ok(())
    }

    /// Samples of a step are about to run forward and backward together.
    fn on_part(&self, part: &HookedPart) {
        let _ = part;
    }

    /// A batch of this shape is about to run forward, without gradients.
    fn on_forward(&self, shape: StepShape) {
        let _ = shape;
    }

    /// A validation or the test is about to begin, or has ended.
    fn on_validation(&self, is_running: bool) {
        let _ = is_running;
    }
}

/// Some samples of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookedPart {
    /// How many they are, and their extent.
    pub shape: StepShape,
    /// Which of the step's samples they are; those of a blank batch have no place in it, and begin at zero.
    pub samples: Range<usize>,
    /// How many samples the step has; `None` for a blank batch, which knows of no others.
    pub n_samples: Option<usize>,
}

/// A job that is otherwise the one that it wraps.
#[derive(Debug)]
pub struct Hooked<J, H: ?Sized> {
    /// The job.
    pub job: J,
    /// Who is told.
    pub hooks: Arc<H>,
}

/// The samples of a job that is watched.
#[derive(Debug)]
pub struct HookedSource<S, H: ?Sized> {
    source: Arc<S>,
    hooks: Arc<H>,
}

/// A buffer that knows what is in it.
#[derive(Debug)]
pub struct HookedBuffer<B> {
    buffer: B,
    draw: Draw,
}

impl<B> HookedBuffer<B> {
    fn part(&self, samples: Range<usize>) -> HookedPart {
        let ends = self.draw.parts.iter().scan(0, |end, part| {
            *end += part.n_rows();
            Some((*end, part.extent))
        });
        let extent = ends.into_iter().find(|(end, _)| samples.start < *end).map_or(Extent::new(0), |it| it.1);
        let shape = StepShape::of(u32::try_from(samples.len()).unwrap_or(u32::MAX), extent);
        HookedPart { shape, samples, n_samples: Some(self.draw.n_rows()) }
    }
}

impl<J, H: Hooks + ?Sized> Hooked<J, H> {
    /// Measures what is held out, and tells of it.
    fn watched<T>(&self, inference: &mut Inference<'_>, measure: impl FnOnce(&mut Inference<'_>) -> T) -> T {
        let hooks = Arc::clone(&self.hooks);
        inference.on_batch(Box::new(move |shape| hooks.on_forward(shape)));
        self.hooks.on_validation(true);
        let measured = measure(inference);
        self.hooks.on_validation(false);
        measured
    }
}

// What has a default would not be that of the job.
#[deny(clippy::missing_trait_methods, reason = "all that is asked of it is asked of the job")]
impl<J: Job, H: Hooks + ?Sized> Job for Hooked<J, H> {
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

    fn features(&self) -> Features {
        self.job.features()
    }

    fn source(&self) -> Arc<Self::Source> {
        Arc::new(HookedSource { source: self.job.source(), hooks: Arc::clone(&self.hooks) })
    }

    fn init(&self, device: &Device) -> J::Model {
        self.job.init(device)
    }

    fn optimizer(&self) -> JobOptimizer {
        self.job.optimizer()
    }

    fn max_norm(&self) -> Option<f64> {
        self.job.max_norm()
    }

    fn unit_of_length(&self) -> &'static str {
        self.job.unit_of_length()
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

    fn batch(
        &self,
        buffer: &HookedBuffer<<J::Source as Source>::Buffer>,
        samples: Range<usize>,
        device: &Device,
    ) -> J::Batch {
        self.hooks.on_part(&buffer.part(samples.clone()));
        self.job.batch(&buffer.buffer, samples, device)
    }

    fn blank_batch(&self, shape: StepShape, device: &Device) -> J::Batch {
        self.hooks.on_part(&HookedPart { shape, samples: 0..shape.samples as usize, n_samples: None });
        self.job.blank_batch(shape, device)
    }

    fn mean_loss(&self, model: &J::Model, batch: J::Batch, task_weights: &[f32]) -> Loss {
        self.job.mean_loss(model, batch, task_weights)
    }

    fn blank_forward(&self, model: &J::Model, shape: StepShape, device: &Device) -> Tensor<1> {
        self.hooks.on_forward(shape);
        self.job.blank_forward(model, shape, device)
    }

    fn describe_validation(&self, extent: Extent) -> String {
        self.job.describe_validation(extent)
    }

    fn validate(
        &self,
        model: &J::Model,
        device: &Device,
        inference: &mut Inference<'_>,
    ) -> Result<Option<Validation>, StepError> {
        self.watched(inference, |inference| self.job.validate(model, device, inference))
    }

    fn has_test(&self) -> bool {
        self.job.has_test()
    }

    fn test(
        &self,
        model: &J::Model,
        device: &Device,
        inference: &mut Inference<'_>,
    ) -> Result<Option<Validation>, StepError> {
        self.watched(inference, |inference| self.job.test(model, device, inference))
    }
}

#[deny(clippy::missing_trait_methods, reason = "all that is asked of it is asked of the source")]
impl<S: Source, H: Hooks + ?Sized> Source for HookedSource<S, H> {
    type Item = S::Item;
    type Buffer = HookedBuffer<S::Buffer>;

    fn n_samples(&self) -> u64 {
        self.source.n_samples()
    }

    fn lengths(&self) -> Lengths {
        self.source.lengths()
    }

    fn sources(&self) -> &[NamedSource] {
        self.source.sources()
    }

    fn expected_extent(&self, id: u64) -> Option<Extent> {
        self.source.expected_extent(id)
    }

    fn describe(&self, id: u64) -> String {
        self.source.describe(id)
    }

    fn smaller(&self) -> &'static str {
        self.source.smaller()
    }

    fn read(&self, epoch: u64, id: u64) -> Result<S::Item, SourceError> {
        self.hooks.on_read(epoch, id)?;
        self.source.read(epoch, id)
    }

    fn stand_in(&self, id: u64) -> Option<S::Item> {
        self.source.stand_in(id)
    }

    fn buffer_bytes(&self, largest: StepShape) -> Bytes {
        self.source.buffer_bytes(largest)
    }

    fn buffer(&self, largest: StepShape) -> Self::Buffer {
        let draw = Draw { epoch: 0, parts: Vec::new() };
        HookedBuffer { buffer: self.source.buffer(largest), draw }
    }

    fn collate(&self, draw: &Draw, items: &[S::Item], buffer: &mut Self::Buffer) -> Result<(), SourceError> {
        buffer.draw.clone_from(draw);
        self.source.collate(draw, items, &mut buffer.buffer)
    }
}

#[cfg(test)]
mod tests;
