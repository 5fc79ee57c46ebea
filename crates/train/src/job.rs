//! What a job brings to a run.

use std::ops::Range;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use crate::inference::Inference;
use crate::source::Source;
use crate::step::StepError;

/// A model, its data, its loss and its metric; everything else is the run's.
pub trait Job {
    /// The training data.
    type Source: Source;
    /// The model.
    type Model: Module;

    /// Returns the job's short name.
    fn name(&self) -> &'static str;

    /// Describes what a checkpoint of this job fits: the model's size and the data's.
    fn fingerprint(&self) -> String;

    /// Returns the training data.
    fn source(&self) -> Arc<Self::Source>;

    /// Creates the model on a device; the device was seeded before.
    fn init(&self, device: &Device) -> Self::Model;

    /// Returns the mean loss over a range of a buffer's samples, with its graph.
    ///
    /// # Shapes
    ///
    /// - output: `[1]`
    fn mean_loss(
        &self,
        model: &Self::Model,
        buffer: &<Self::Source as Source>::Buffer,
        samples: Range<usize>,
        device: &Device,
    ) -> Tensor<1>;

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
