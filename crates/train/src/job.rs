//! What a job brings to a run.

use std::ops::Range;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use plimsoll_types::StepShape;

use crate::inference::Inference;
use crate::source::Source;
use crate::step::StepError;

/// A model, its data, its loss and its metric; everything else is the run's.
pub trait Job {
    /// The training data.
    type Source: Source;
    /// The model.
    type Model: Module;
    /// What a loss is computed from: tensors on the device.
    type Batch;

    /// Returns the job's short name.
    fn name(&self) -> &'static str;

    /// Describes what decides the memory of a step: the model, its loss and the tensors of a batch, with their sizes.
    ///
    /// A memory plan holds while it stays the same.
    fn program(&self) -> String;

    /// Describes what a checkpoint of this job fits: the model's size and the data's.
    fn fingerprint(&self) -> String;

    /// Returns the training data.
    fn source(&self) -> Arc<Self::Source>;

    /// Creates the model on a device; the device was seeded before.
    fn init(&self, device: &Device) -> Self::Model;

    /// Copies a range of a buffer's samples to the device.
    fn batch(&self, buffer: &<Self::Source as Source>::Buffer, samples: Range<usize>, device: &Device) -> Self::Batch;

    /// Returns a batch of the tensors that [`Self::batch`] makes, made on the device with any values.
    ///
    /// Steps are planned with it, by their shapes alone.
    fn blank_batch(&self, shape: StepShape, device: &Device) -> Self::Batch;

    /// Returns the mean loss over a batch, with its graph.
    ///
    /// # Shapes
    ///
    /// - output: `[1]`
    fn mean_loss(&self, model: &Self::Model, batch: Self::Batch) -> Tensor<1>;

    /// Runs the forward pass of a validation batch of this shape with any values, and returns all that is read of it.
    ///
    /// The model is one without gradients. Validations are planned with it.
    ///
    /// # Shapes
    ///
    /// - output: `[n_values]`
    fn blank_forward(&self, model: &Self::Model, shape: StepShape, device: &Device) -> Tensor<1>;

    /// Measures the model on held-out data.
    ///
    /// # Errors
    ///
    /// [`StepError`] when an item does not fit, or data cannot be read.
    fn validate(
        &self,
        model: &Self::Model,
        device: &Device,
        inference: &mut Inference<'_>,
    ) -> Result<Metric, StepError>;
}

/// The outcome of a validation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// Name, with its unit.
    pub name: &'static str,
    /// On the validation set.
    pub value: f64,
    /// The trivial baseline's, on the same set.
    pub baseline: f64,
}
