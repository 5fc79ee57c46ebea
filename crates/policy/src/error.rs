//! Why a configuration is refused.

use std::fmt::Display;
use std::ops::RangeInclusive;

use plimsoll_types::LadderError;

/// Input that no policy can follow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A value is not allowed.
    #[error("{key} is {value}, allowed is {allowed}")]
    OutOfRange {
        /// The key in the configuration.
        key: &'static str,
        /// The value that was given.
        value: String,
        /// What would have been accepted.
        allowed: String,
    },
    /// The bounds make no ladder.
    #[error(transparent)]
    Ladder(#[from] LadderError),
}

impl PolicyError {
    pub(crate) fn out_of_range(key: &'static str, value: impl Display, allowed: impl Into<String>) -> Self {
        Self::OutOfRange { key, value: value.to_string(), allowed: allowed.into() }
    }
}

/// Refuses a value outside `allowed`; NaN is outside.
pub(crate) fn check_range<T: PartialOrd + Display>(
    key: &'static str,
    value: &T,
    allowed: &RangeInclusive<T>,
) -> Result<(), PolicyError> {
    if allowed.contains(value) {
        return Ok(());
    }
    Err(PolicyError::out_of_range(key, value, format!("{} to {}", allowed.start(), allowed.end())))
}
