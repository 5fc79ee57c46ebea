//! The end of an epoch.

/// An epoch that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedEpoch {
    /// Which, from 0.
    pub epoch: u64,
    /// Samples of a step at its end that was less than a whole one and is left out.
    pub dropped: u64,
}

impl EndedEpoch {
    /// Says that no sample was dropped.
    pub const fn whole(epoch: u64) -> Self {
        Self { epoch, dropped: 0 }
    }
}
