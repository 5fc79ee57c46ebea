//! A step without its data.

use burn::module::{Module, ParamId};
use burn::tensor::{Device, Tensor};
use plimsoll_step::{Loss, OptimizerRecovery, Rescale, StepPart, StepRequest, TrainState, rehearse};
use plimsoll_types::{Budget, StepShape};

use crate::Program;

/// A step without its data: of batches that are made on the device, with any values.
///
/// Dry runs issue it as a [`BlankProgram`], and real steps of it are [`BlankTrials`](crate::BlankTrials).
pub trait Blank {
    /// The model.
    type Model: Module;

    /// Returns the device, with gradients.
    fn device(&self) -> &Device;

    /// Makes a model and its optimizer, in buffers that nobody else holds.
    fn start(&self) -> TrainState<Self::Model>;

    /// Returns the mean loss over a blank batch of this shape, with its graph.
    fn mean_loss(&self, model: &Self::Model, shape: StepShape) -> Loss;

    /// Whether it lies on other devices too; see [`Program::is_on_several`].
    fn is_on_several(&self) -> bool {
        false
    }

    /// Whether steps keep their pages for the next ones; see [`Program::keeps_pages`].
    fn keeps_pages(&self) -> bool {
        false
    }

    /// Returns the largest global norm of a gradient, to which larger ones are scaled.
    fn max_norm(&self) -> Option<f64> {
        None
    }

    /// Names parameters whose gradients are read and left out; see [`StepRequest::task_probes`].
    fn task_probes(&self, _model: &Self::Model) -> Vec<ParamId> {
        Vec::new()
    }

    /// Runs one forward pass of a model without gradients, and returns all that is read of its results: nothing, where no
    /// forward pass is asked for.
    ///
    /// # Shapes
    ///
    /// - output: `[n_values]`
    fn forward(&self, _model: &Self::Model, _shape: StepShape) -> Tensor<1> {
        Tensor::zeros([1], &self.device().clone().inner())
    }
}

/// A blank step, as a planner rehearses it.
///
/// It issues the same operations in the same order as a real one, by [`rehearse`], and reads nothing.
pub struct BlankProgram<B> {
    blank: B,
    recovery: OptimizerRecovery,
}

impl<B: Blank> BlankProgram<B> {
    /// Keeps what a run with this recovery keeps while the optimizer steps.
    pub fn new(blank: B, recovery: OptimizerRecovery) -> Self {
        Self { blank, recovery }
    }
}

impl<B: Blank> Program for BlankProgram<B> {
    type State = TrainState<B::Model>;

    fn device(&self) -> &Device {
        self.blank.device()
    }

    fn is_on_several(&self) -> bool {
        self.blank.is_on_several()
    }

    fn keeps_pages(&self) -> bool {
        self.blank.keeps_pages()
    }

    fn start(&self) -> Self::State {
        self.blank.start()
    }

    fn train(&self, state: Self::State, micro_batches: &[StepShape]) -> (Self::State, Tensor<1>) {
        let task_probes = self.blank.task_probes(state.model());
        let rescale = Rescale { max_norm: self.blank.max_norm(), ..Rescale::default() };
        let request = StepRequest { rescale, ..StepRequest::of_shapes(micro_batches, task_probes, Budget::UNBOUNDED) };
        let mean_loss = |model: &B::Model, part: &StepPart| self.blank.mean_loss(model, part.shape());
        rehearse(state, self.blank.device(), &request, mean_loss, self.recovery)
    }

    fn infer(&self, state: &Self::State, shape: StepShape) -> Tensor<1> {
        self.blank.forward(&state.model().valid(), shape)
    }
}
