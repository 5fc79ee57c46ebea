//! What a job brings to a run.

use std::ops::Range;
use std::sync::Arc;

use burn::module::{Module, ParamId};
use burn::tensor::{Device, Tensor};
use plimsoll_predict::Key;
use plimsoll_step::{Loss, StepError, pass_as};
pub use plimsoll_types::Goal;
use plimsoll_types::{Extent, Features, StepShape};

use crate::device::uploaded;
use crate::first_samples::filled;
use crate::inference::Inference;
use crate::names::{name_of_type, parameters};
use crate::optimizer::{Adam, JobOptimizer};
use crate::source::{Item, Source};

/// A model, its data and its loss; everything else is the run's.
///
/// Four methods are asked for: where samples come from, the model, a batch of some samples, and its loss.
/// [`InMemory`](crate::InMemory) is a source of samples that lie in memory. What has a default is for those who want more:
/// another optimizer, a validation and a test, several tasks, plans of other batches than real ones, names for people.
pub trait Job: Sync {
    /// The training data.
    type Source: Source;
    /// The model.
    type Model: Module;
    /// What a loss is computed from: tensors on the device.
    type Batch;

    /// Returns the training data.
    fn source(&self) -> Arc<Self::Source>;

    /// Creates the model on a device; the device was seeded before.
    fn init(&self, device: &Device) -> Self::Model;

    /// Copies a range of a buffer's samples to the device; they lie in one part of its draw.
    fn batch(&self, buffer: &<Self::Source as Source>::Buffer, samples: Range<usize>, device: &Device) -> Self::Batch;

    /// Returns the mean loss over a batch, with its graph.
    ///
    /// Where a run computes in 16 bits the weights of this model are in that format, and the batch is not yet; the loss is best
    /// computed in 32 bits. What it makes on a device is to be made on that of the batch.
    ///
    /// `task_weights` has one weight for each of [`Self::tasks`].
    fn mean_loss(&self, model: &Self::Model, batch: Self::Batch, task_weights: &[f32]) -> Loss;

    /// Returns the optimizer; [`Adam`] by default.
    fn optimizer(&self) -> JobOptimizer {
        Adam::default().into()
    }

    /// Returns the largest global norm of a step's gradient, to which larger ones are scaled; none by default.
    fn max_norm(&self) -> Option<f64> {
        None
    }

    /// Returns the job's short name; by default that of its type.
    fn name(&self) -> &'static str {
        name_of_type::<Self>()
    }

    /// Describes what decides the memory of a step: the model, its loss and the tensors of a batch, with their sizes.
    ///
    /// A memory plan holds while it stays the same. The default knows the name of the job and the parameters of its model:
    /// where anything else may change, the job says so.
    fn program(&self) -> String {
        format!("{} with {}", self.name(), parameters(&self.init(&Device::default())))
    }

    /// Describes what a checkpoint of this job fits: the model's size and the data's.
    ///
    /// The default knows what [`Self::program`] says, how many samples there are, and their lengths where those are known.
    fn fingerprint(&self) -> String {
        let (program, source) = (self.program(), self.source());
        let lengths = source.lengths();
        let lengths = lengths.index().map(|it| format!(", lengths {:016x}", it.fingerprint())).unwrap_or_default();
        format!("{program} on {} samples{lengths}", source.n_samples())
    }

    /// Names the monomials, in the number of samples and the edges, that the size of every tensor of a step is a
    /// combination of, forward passes without gradients included; see [`Features`].
    ///
    /// The default suits samples with one axis, be it a sequence with attention or a square patch.
    fn features(&self) -> Features {
        Features::complete(1)
    }

    /// Names what the edge of a shape counts, in the plural, such as "tokens"; of several axes, all of them.
    fn unit_of_length(&self) -> &'static str {
        "positions"
    }

    /// Returns what the mean of a loss is taken over.
    fn unit(&self) -> Unit {
        Unit::Samples
    }

    /// Returns the names of the samples' tasks, in the order of [`Item::task`](crate::Item::task); none for one task.
    ///
    /// The loss of a step is the mean, over the tasks that it has, of a task's weight times its mean loss.
    fn tasks(&self) -> &[String] {
        &[]
    }

    /// Returns a parameter per task that is zero and is never updated, added to the last shared layer for the samples of
    /// that task alone: its gradient is that of the task's loss with respect to the layer.
    ///
    /// None where no balance of the tasks asks for norms.
    fn task_probes(&self, _model: &Self::Model) -> Vec<ParamId> {
        Vec::new()
    }

    /// Returns a batch of the tensors that [`Self::batch`] makes, made on the device with any values.
    ///
    /// Steps are planned with it, by their shapes alone. The default has the first samples that are short enough, again
    /// and again: good where reading them takes no time. One that makes zeros on the device reads none.
    ///
    /// # Panics
    ///
    /// The default, where no sample that is short enough can be read.
    fn blank_batch(&self, shape: StepShape, device: &Device) -> Self::Batch {
        let buffer = filled(&*self.source(), shape).unwrap_or_else(|error| panic!("failed to {error}"));
        self.batch(&buffer, 0..shape.samples as usize, device)
    }

    /// Runs the forward pass of a validation batch of this shape with any values, and returns all that is read of it.
    ///
    /// The model is one without gradients. Validations are planned with it. The default is the loss of
    /// [`Self::blank_batch`].
    ///
    /// # Shapes
    ///
    /// - output: `[n_values]`
    fn blank_forward(&self, model: &Self::Model, shape: StepShape, device: &Device) -> Tensor<1> {
        let batch = uploaded(self.blank_batch(shape, device), device);
        self.mean_loss(model, batch, &vec![1.0; self.tasks().len()]).mean
    }

    /// Names for people what alone does not fit into a validation at this extent.
    fn describe_validation(&self, extent: Extent) -> String {
        format!("an item of edge {extent}")
    }

    /// Measures the model on held-out data: on the items that [`Inference::choose`] names, where there are many.
    ///
    /// The default has nothing to measure it on, and returns none: no checkpoint is the best then.
    ///
    /// # Errors
    ///
    /// [`StepError`] when an item does not fit, or data cannot be read.
    fn validate(
        &self,
        _model: &Self::Model,
        _device: &Device,
        _inference: &mut Inference<'_>,
    ) -> Result<Option<Validation>, StepError> {
        Ok(None)
    }

    /// Whether there are data to test on, which neither training nor validation sees; by default there are none.
    fn has_test(&self) -> bool {
        false
    }

    /// Measures a model on the data of [`Self::has_test`] as [`Self::validate`] does on others: the model of the best
    /// validation, once, at the end of a run.
    ///
    /// # Errors
    ///
    /// As [`Self::validate`].
    fn test(
        &self,
        _model: &Self::Model,
        _device: &Device,
        _inference: &mut Inference<'_>,
    ) -> Result<Option<Validation>, StepError> {
        Ok(None)
    }
}

/// Returns the mean loss over a batch that is made on the device of its pass, computed as the key of its shape says.
pub(crate) fn mean_loss<J: Job>(
    job: &J,
    key: Key,
    (model, device): (&J::Model, &Device),
    batch: impl FnOnce(&Device) -> J::Batch,
    task_weights: &[f32],
) -> Loss {
    pass_as(key, model, device, |model, device| job.mean_loss(model, batch(device), task_weights)).in_32_bits()
}

/// What the mean of a loss is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Samples, whatever their length.
    Samples,
    /// The positions of the samples, tokens say: of each as many as its
    /// [`counted_positions`](crate::Item::counted_positions).
    Positions,
}

impl Unit {
    /// Returns what a sample counts.
    pub fn of(self, sample: &impl Item) -> u64 {
        match self {
            Self::Samples => 1,
            Self::Positions => sample.counted_positions(),
        }
    }
}

/// The outcome of a validation or a test.
#[derive(Clone, Debug, PartialEq)]
pub struct Validation {
    /// Over everything.
    pub metric: Metric,
    /// Of each task, where there is more than one.
    pub tasks: Vec<Metric>,
    /// What else there is to say of the same items.
    pub others: Vec<Metric>,
}

impl From<Metric> for Option<Validation> {
    fn from(metric: Metric) -> Self {
        Some(Validation { metric, tasks: Vec::new(), others: Vec::new() })
    }
}

/// A number that says how good the model is.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Name, with its unit.
    pub name: String,
    /// On what is held out.
    pub value: f64,
    /// The baseline's, on the same items.
    pub baseline: f64,
    /// Which values are good.
    pub goal: Goal,
}

impl Metric {
    /// Whether a model that scores this is to be kept instead of one that scored `best`; one whose score is no finite number
    /// never is.
    pub fn is_better_than(&self, best: Option<f64>) -> bool {
        self.goal.prefers(self.value, best.unwrap_or(f64::NAN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_finite_score_is_kept_and_any_beats_one_that_is_not() {
        const NONE: [f64; 3] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        for goal in [Goal::Highest, Goal::Lowest] {
            let scores = |value| Metric { name: String::new(), value, baseline: 0.0, goal };
            for none in NONE {
                assert!(
                    !scores(none).is_better_than(None) && !scores(none).is_better_than(Some(1.0)),
                    "{none} {goal:?}"
                );
                assert!(scores(1.0).is_better_than(Some(none)), "{none} {goal:?}");
            }
            assert!(scores(1.0).is_better_than(None) && !scores(1.0).is_better_than(Some(1.0)));
            let best = if goal == Goal::Highest { 0.5 } else { 1.5 };
            assert!(scores(1.0).is_better_than(Some(best)) && !scores(best).is_better_than(Some(1.0)));
        }
    }
}
