//! How ranks stand.

use std::cmp::Reverse;

/// How a rank stands when it meets the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readiness {
    /// It is ready for what comes next.
    #[default]
    Ready,
    /// A sample padded to this edge alone does not fit there, and all that are as long are left out of the step.
    LeavesOut {
        /// The edge.
        edge: u32,
    },
    /// It has lost its weights, and all go back to the last checkpoint.
    GoesBack,
}

impl Readiness {
    /// Returns the numbers that others are told.
    pub(crate) const fn told(self) -> [u64; 2] {
        match self {
            Self::Ready => [0, 0],
            Self::LeavesOut { edge } => [1, edge as u64],
            Self::GoesBack => [2, 0],
        }
    }

    /// Orders them, the worst last: what fits on one that holds only shorter samples fits on all.
    pub(crate) const fn severity(self) -> (u8, Reverse<u32>) {
        match self {
            Self::Ready => (0, Reverse(0)),
            Self::LeavesOut { edge } => (1, Reverse(edge)),
            Self::GoesBack => (2, Reverse(0)),
        }
    }

    /// Returns what others mean by such numbers.
    pub(crate) fn heard(told: &[u64]) -> Self {
        match told[0] {
            0 => Self::Ready,
            1 => Self::LeavesOut { edge: u32::try_from(told[1]).unwrap_or(u32::MAX) },
            _ => Self::GoesBack,
        }
    }
}
