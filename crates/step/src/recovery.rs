//! The way back from an optimizer's step.

/// Where the state from before comes from, when the optimizer's step runs out of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OptimizerRecovery {
    /// From the last checkpoint: costs nothing until it happens, and then the steps since.
    #[default]
    Restore,
    /// From a copy of weights and moments that is kept until the step is known to be good: costs their memory, which the
    /// plan includes, and one read of the device a step.
    Keep,
}

impl OptimizerRecovery {
    /// Returns what is kept of a state while the optimizer steps.
    pub(crate) fn kept<S: Clone>(self, state: &S) -> Option<S> {
        (self == Self::Keep).then(|| state.clone())
    }
}
