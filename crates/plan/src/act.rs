//! What is rehearsed.

use plimsoll_predict::Phase;
use plimsoll_types::StepShape;

use crate::micro_batches;

/// One thing that a run does, as far as memory is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// An optimizer step over these micro-batches.
    Train(Vec<StepShape>),
    /// A forward pass without gradients.
    Infer(StepShape),
    /// Empty pages go back to the device.
    CleanUp,
}

impl Act {
    /// Returns a step of `n_samples` in micro-batches of this shape, or a forward pass.
    pub fn of(phase: Phase, shape: StepShape, n_samples: u32) -> Self {
        match phase {
            Phase::Train => Self::Train(micro_batches(shape, n_samples)),
            Phase::Infer => Self::Infer(shape),
        }
    }

    /// Returns the shape of the first micro-batch, for people.
    pub fn shape(&self) -> StepShape {
        match self {
            Self::Train(step) => step.first().copied(),
            Self::Infer(shape) => Some(*shape),
            Self::CleanUp => None,
        }
        .unwrap_or(StepShape::new(0, 0))
    }
}
