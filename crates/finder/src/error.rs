//! Why a configuration is refused, or a search has no answer.

use std::fmt::Display;
use std::ops::RangeInclusive;

use plimsoll_types::{Bytes, StepShape};

/// Input that no finder can follow, or a search without an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FinderError {
    /// A value is not allowed.
    #[error("find a batch size: `{key}` is {value}, allowed is {allowed}")]
    OutOfRange {
        /// The key in the configuration.
        key: &'static str,
        /// The value that was given.
        value: String,
        /// What would have been accepted.
        allowed: String,
    },
    /// The smallest batch that may be tried was measured, or planned, to need more than it may use.
    #[error(
        "find a batch size: the smallest batch, {shape}, {} to need {needed}, and {available} may be used",
        if *.is_measured { "was measured" } else { "is planned" }
    )]
    DoesNotFit {
        /// The smallest batch and its extent.
        shape: StepShape,
        /// What it needs.
        needed: Bytes,
        /// Whether that was measured, or else planned by dry run.
        is_measured: bool,
        /// What a step may use.
        available: Bytes,
    },
    /// The smallest batch that may be tried ran out of memory before anyone could tell what it needs.
    #[error("find a batch size: the smallest batch, {shape}, runs out of memory, and {available} may be used")]
    OutOfMemory {
        /// The smallest batch and its extent.
        shape: StepShape,
        /// What a step may use.
        available: Bytes,
    },
    /// The smallest batch that may be tried cannot be planned, so that it never fits.
    #[error("find a batch size: a dry run of the smallest batch, {shape}, fails")]
    NoPlan {
        /// The smallest batch and its extent.
        shape: StepShape,
    },
}

impl FinderError {
    pub(crate) fn out_of_range(key: &'static str, value: impl Display, allowed: impl Into<String>) -> Self {
        Self::OutOfRange { key, value: value.to_string(), allowed: allowed.into() }
    }
}

/// Refuses a value outside `allowed`; NaN is outside.
pub(crate) fn check_range<T: PartialOrd + Display>(
    key: &'static str,
    value: &T,
    allowed: &RangeInclusive<T>,
) -> Result<(), FinderError> {
    if allowed.contains(value) {
        return Ok(());
    }
    Err(FinderError::out_of_range(key, value, format!("{} to {}", allowed.start(), allowed.end())))
}
