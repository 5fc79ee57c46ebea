//! What was measured, what was observed of a step, and what is expected of one.

use serde::{Deserialize, Serialize};

use crate::{Bytes, StepShape};

/// The smallest page that `CubeCL`'s allocator opens for tensors above 64 KiB.
///
/// # Sources
///
/// `MIN_PAGE` of `cubecl-server` 0.11.3 (`memory_management/dynamic/adaptive.rs`).
pub const SMALLEST_PAGE: Bytes = Bytes::mib(2);

/// What a device's memory looked like at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryReading {
    /// Bytes held by live allocations.
    pub in_use: Bytes,
    /// Bytes that the allocator holds from the driver or the system; never less than `in_use`.
    pub reserved: Bytes,
    /// High-water mark since it was last reset, or since the start where it cannot be reset.
    pub peak: Bytes,
    /// The size of the largest pages that the allocator reserves in, or zero where it does not reserve in pages.
    pub page: Bytes,
    /// The most that a product of matrices has packed until now, in the threads that it was divided among, and with it what
    /// these may take for themselves beside the first of them; or zero where that does not count in `peak`.
    pub packed: Bytes,
}

/// The peak of one step, with what was alive before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// The largest micro-batch of the step.
    pub shape: StepShape,
    /// Bytes in use before the step began: parameters, optimizer state, buffers.
    pub resident: Bytes,
    /// Bytes at the step's high-water mark, `resident` included. Reading too much is safe, too little is not.
    pub peak: Bytes,
}

/// What a step is expected to need, everything resident included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prediction {
    /// The best single guess of the peak.
    pub expected: Bytes,
    /// An upper bound of the peak.
    pub upper: Bytes,
}

impl Prediction {
    /// Returns what so many alike take at once, all beside what is in use `before`.
    #[must_use]
    pub fn of_many(self, n: u32, before: Bytes) -> Self {
        let all = |one: Bytes| one.saturating_sub(before).saturating_mul(n.into()).saturating_add(before);
        if n == 1 { self } else { Self { expected: all(self.expected), upper: all(self.upper) } }
    }
}
