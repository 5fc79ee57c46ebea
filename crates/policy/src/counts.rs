//! What the policies count, and what they ask, alike.

use plimsoll_types::{Bytes, Decision, KeepReason};
use serde::{Deserialize, Serialize};

/// Steps that ran out of memory; a step that had to be split several times counts once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failures {
    count: u32,
    last_step: Option<u64>,
}

impl Failures {
    /// Counts a failed step, and returns whether this is its first failure.
    pub(crate) fn on_step_failed(&mut self, step: u64) -> bool {
        let is_first = self.last_step.replace(step) != Some(step);
        self.count = self.count.saturating_add(u32::from(is_first));
        is_first
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Whether this step is the last one that failed.
    pub(crate) fn failed(&self, step: u64) -> bool {
        self.last_step == Some(step)
    }
}

/// Steps done, and what a step may use then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) now: u64,
    pub(crate) budget: Bytes,
}

/// Whether a budget holds in its dead band all that another is: 1.5 %, what a rung is entered below.
pub(crate) fn is_well_above(budget: Bytes, other: Bytes) -> bool {
    other <= share(budget, 0.985)
}

pub(crate) fn keep(reason: KeepReason) -> Decision {
    Decision::Keep { reason }
}

/// Returns a share of the budget, rounded down.
pub(crate) fn share(budget: Bytes, ratio: f64) -> Bytes {
    Bytes::from_f64_ceil((budget.as_f64() * ratio).floor())
}
