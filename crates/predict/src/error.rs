//! What this crate refuses.

use std::ops::RangeInclusive;

use plimsoll_types::{Bytes, StepShape};

/// What a predictor, an explorer or a statistic refuses.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PredictError {
    /// A setting outside its range.
    #[error("`{key}` is {value}, but must be between {} and {}", .allowed.start(), .allowed.end())]
    OutOfRange {
        /// Name of the setting.
        key: &'static str,
        /// What it was set to.
        value: f64,
        /// What it may be.
        allowed: RangeInclusive<f64>,
    },
    /// An observation without a sample, or of samples without an extent.
    #[error("learn from a step of shape {0}: it holds nothing")]
    EmptyShape(StepShape),
    /// A step whose samples extend along other axes than the features of its job.
    #[error("learn from a step of shape {shape}: the features of the job are over {n_axes} axes")]
    OtherAxes {
        /// Shape of the step.
        shape: StepShape,
        /// Axes of the features.
        n_axes: usize,
    },
    /// Features over several axes, for a program whose samples have a length.
    #[error("name features over one axis, the length of a sample: these are over {0}")]
    NotOfLengths(usize),
    /// A peak that is not above what was resident before the step: no step needs nothing, so the reading is wrong.
    #[error("learn from a step of shape {shape}: its peak of {peak} is not above the resident {resident}")]
    NothingNeeded {
        /// Shape of the step.
        shape: StepShape,
        /// Bytes in use before it.
        resident: Bytes,
        /// Its high-water mark.
        peak: Bytes,
    },
    /// A size that cannot be zero is: no step runs without an allocation, so the reading or the plan is wrong.
    #[error("learn from a step of shape {shape}: its `{quantity}` is 0 B, but must be at least 1 B")]
    NothingRead {
        /// Shape of the step.
        shape: StepShape,
        /// Name of the size.
        quantity: &'static str,
    },
    /// A count that must be at least one is zero.
    #[error("find a shape: `{0}` is 0, but must be at least 1")]
    NoCell(&'static str),
    /// More violations than trials.
    #[error("state a coverage: {n_violations} violations of {n} trials, but there can be at most {n}")]
    MoreViolationsThanTrials {
        /// Trials above their bound.
        n_violations: u64,
        /// All trials.
        n: u64,
    },
}
