//! What a policy is told.

use plimsoll_types::{Budget, Bytes, Knobs, Recompute, StepShape};

/// What happened to a step, or to the memory that steps may use: all that a policy goes by.
///
/// A log has events that say much more; whoever keeps it takes these out of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A step was committed.
    Done(StepMeasured),
    /// A step ran out of memory somewhere, and is tried again.
    OutOfMemory(StepRefused),
    /// There is more or less memory to use than before.
    BudgetChanged {
        /// The next step.
        step: u64,
        /// The memory from that step on.
        budget: Budget,
    },
    /// From here on the activations of these samples are recomputed in the backward pass: what was seen of them before says
    /// nothing of it.
    Checkpointing(Recompute),
}

/// A step that was committed, in the eyes of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepMeasured {
    /// Optimizer step, from 0.
    pub step: u64,
    /// The knobs that were asked for.
    pub knobs: Knobs,
    /// Whether a micro-batch was divided that was asked for in one: its peak is not that of the knobs then.
    pub is_divided: bool,
    /// The micro-batch that made the peak, where there is any.
    pub highest: Option<StepShape>,
    /// High-water mark of the step.
    pub peak: Bytes,
    /// The memory that there was.
    pub budget: Budget,
}

/// A step that ran out of memory, in the eyes of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepRefused {
    /// Optimizer step, from 0.
    pub step: u64,
    /// The knobs that were asked for.
    pub knobs: Knobs,
    /// What was tried.
    pub shape: StepShape,
    /// Whether a micro-batch failed, whose samples run again in parts before the step is done: then sizes change once, when
    /// it is.
    pub in_parts: bool,
}
