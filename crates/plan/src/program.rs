//! The step that is planned.

use burn::tensor::{Device, Tensor};
use plimsoll_types::StepShape;

/// A step that can be rehearsed: the user's own model, loss and optimizer, on the user's own device.
///
/// A rehearsal issues the step for its shapes alone.
/// Under a dry run no kernel runs, so every value is garbage: do not read one, do not branch on one, and fill inputs on
/// the device ([`Tensor::zeros`]) where they are large, since an upload takes real memory.
pub trait Program {
    /// What lives from step to step: model and optimizer, in buffers that nobody else holds.
    ///
    /// A buffer that somebody else holds cannot be updated in place, and would book a copy that the real step does not.
    type State;

    /// Returns the device that it runs on, with gradients.
    fn device(&self) -> &Device;

    /// Whether it lies on other devices too, so that what goes from one to the next is read: then nobody can tell that from a
    /// step that reads a value.
    fn is_on_several(&self) -> bool {
        false
    }

    /// Whether its steps keep their pages for the next ones, as Burn's own loop does, which returns none.
    fn keeps_pages(&self) -> bool {
        false
    }

    /// Makes a state of its own.
    fn start(&self) -> Self::State;

    /// Runs one optimizer step over micro-batches of these shapes, and returns a scalar that depends on every gradient.
    ///
    /// More than one micro-batch accumulates gradients, as the real step does.
    ///
    /// # Shapes
    ///
    /// - output: `[1]`
    fn train(&self, state: Self::State, micro_batches: &[StepShape]) -> (Self::State, Tensor<1>);

    /// Runs one forward pass without gradients, and returns all that is read of its results.
    ///
    /// # Shapes
    ///
    /// - output: `[n_values]`
    fn infer(&self, state: &Self::State, shape: StepShape) -> Tensor<1>;
}
