//! How ranks stand.

use std::cmp::Reverse;

use plimsoll_types::{Extent, MAX_AXES};

/// Numbers that say how a rank stands.
pub(crate) const TOLD: usize = 1 + MAX_AXES;

/// How a rank stands when it meets the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readiness {
    /// It is ready for what comes next.
    #[default]
    Ready,
    /// A sample padded to this alone does not fit there, and all that are as large are left out of the step.
    LeavesOut {
        /// What it is padded to.
        extent: Extent,
    },
    /// It has lost its weights, and all go back to the last checkpoint.
    GoesBack,
}

impl Readiness {
    /// Returns the numbers that others are told.
    pub(crate) fn told(self) -> [u64; TOLD] {
        let (kind, extent) = match self {
            Self::Ready => (0, None),
            Self::LeavesOut { extent } => (1, Some(extent)),
            Self::GoesBack => (2, None),
        };
        let edge = |axis: usize| extent.and_then(|it| it.edges().get(axis).copied()).unwrap_or(0);
        std::array::from_fn(|at| if at == 0 { kind } else { edge(at - 1).into() })
    }

    /// Orders them, the worst last: what fits on one that holds only smaller samples fits on all.
    pub(crate) fn severity(self) -> (u8, Reverse<(u64, Extent)>) {
        let none = Extent::new(0);
        match self {
            Self::Ready => (0, Reverse((0, none))),
            Self::LeavesOut { extent } => (1, Reverse((extent.positions(), extent))),
            Self::GoesBack => (2, Reverse((0, none))),
        }
    }

    /// Returns what others mean by such numbers.
    pub(crate) fn heard(told: &[u64]) -> Self {
        match told[0] {
            0 => Self::Ready,
            1 => {
                let edges = told[1..TOLD].iter().map(|it| u32::try_from(*it).unwrap_or(u32::MAX));
                let edges: Vec<_> = edges.take_while(|it| 0 < *it).collect();
                Self::LeavesOut { extent: Extent::try_new(&edges).unwrap_or(Extent::new(0)) }
            }
            _ => Self::GoesBack,
        }
    }
}
