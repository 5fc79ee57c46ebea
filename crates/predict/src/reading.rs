//! What was read of a step.

use plimsoll_types::{Bytes, Observation, StepShape};
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
    /// Of the bytes that an allocator reserves in pages of some size, the part's own.
    Reserved {
        /// What is reserved.
        bytes: Bytes,
        /// The size of the largest pages.
        page: Bytes,
    },
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
    /// The nodes of its graph, or zero where that is [small](crate::SMALL_GRAPH): the tables in which it is kept double at
    /// once, so that without them a shape says little of what they take in another one.
    #[serde(default)]
    pub nodes: u64,
    /// The most that a product of matrices has packed until then, and what threads have taken beside the first of them, which
    /// is in the peak where it was taken just then.
    #[serde(default)]
    pub packed: Bytes,
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

impl PartReading {
    /// Says what was read of a part: of the bytes in use, where the device tells exact peaks, or else of what its allocator
    /// reserves in pages of a size.
    pub const fn of(Observation { shape, resident, peak }: Observation, is_exact: bool, page: Bytes) -> Self {
        let peak = if is_exact { Peak::Exact(peak) } else { Peak::Reserved { bytes: peak, page } };
        Self { shape, before: resident, peak, nodes: 0, packed: Bytes::ZERO }
    }

    /// Adds the nodes of its graph, or zero where that is small.
    #[must_use]
    pub const fn with_nodes(self, nodes: u64) -> Self {
        Self { nodes, ..self }
    }

    /// Adds what a product of matrices has packed at most.
    #[must_use]
    pub const fn with_packed(self, packed: Bytes) -> Self {
        Self { packed, ..self }
    }

    /// Returns what the part needed on top of what was in use before it.
    pub(crate) fn need(&self) -> Bytes {
        self.peak.bytes().saturating_sub(self.before)
    }
}

/// A reading of the bytes in use.
impl From<Observation> for PartReading {
    fn from(read: Observation) -> Self {
        Self::of(read, true, Bytes::ZERO)
    }
}

impl Peak {
    /// Returns the size, whatever it is of.
    pub const fn bytes(self) -> Bytes {
        match self {
            Self::Exact(bytes) | Self::Reserved { bytes, .. } => bytes,
        }
    }

    /// Returns the size of the pages that it is one of, or zero where there are none.
    pub const fn page(self) -> Bytes {
        match self {
            Self::Exact(_) => Bytes::ZERO,
            Self::Reserved { page, .. } => page,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pages_hold_is_no_reading_of_the_bytes_in_use() {
        let shape = StepShape::new(2, 64);
        let read = Observation { shape, resident: Bytes(3), peak: Bytes(5) };
        let part = |peak| PartReading { shape, before: Bytes(3), peak, nodes: 0, packed: Bytes::ZERO };
        assert_eq!(PartReading::of(read, true, Bytes(2)), part(Peak::Exact(Bytes(5))));
        let (bytes, page) = (Bytes(5), Bytes(2));
        assert_eq!(PartReading::of(read, false, page), part(Peak::Reserved { bytes, page }));
    }
}
