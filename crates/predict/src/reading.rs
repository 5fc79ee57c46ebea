//! What was read of a step.

use plimsoll_types::{Bytes, StepShape};
use serde::{Deserialize, Serialize};

/// A high-water mark, by what it is one of.
///
/// The two do not mix: what pages hold is a matter of their size and of what lay in them before, and no bound for one
/// shape follows from that of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Peak {
    /// Of the bytes in use, exact since the part began: a tracking allocator.
    Exact(Bytes),
    /// Of the bytes that an allocator reserves in pages, the part's own.
    Reserved(Bytes),
}

/// What was read of one part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartReading {
    /// Its padded shape.
    pub shape: StepShape,
    /// Bytes in use before it, the gradients that earlier parts have accumulated among them.
    pub before: Bytes,
    /// Its high-water mark.
    pub peak: Peak,
}

/// A reading above its upper bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// Shape of the part.
    pub shape: StepShape,
    /// What its peak was not to exceed.
    pub upper: Bytes,
    /// Its peak.
    pub peak: Bytes,
}

impl Peak {
    /// Returns the size, whatever it is of.
    pub const fn bytes(self) -> Bytes {
        match self {
            Self::Exact(bytes) | Self::Reserved(bytes) => bytes,
        }
    }
}
