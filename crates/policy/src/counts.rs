//! What every policy counts, out-of-memory steps and adjustments up to the brake, and what they all ask.

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

/// Adjustments of the stepwise policy so far, and whether it has said that they are enough.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Brake {
    adjustments: u32,
    announced: bool,
}

impl Brake {
    pub(crate) fn on_adjustment(&mut self) {
        self.adjustments = self.adjustments.saturating_add(1);
    }

    pub(crate) fn adjustments(&self) -> u32 {
        self.adjustments
    }

    /// Returns the answer of a policy that has made all its adjustments: it says so once.
    pub(crate) fn decision(&mut self, max_adjustments: u32) -> Option<Decision> {
        if self.adjustments < max_adjustments {
            return None;
        }
        let announced = std::mem::replace(&mut self.announced, true);
        Some(if announced { keep(KeepReason::Braked) } else { Decision::Brake { adjustments: self.adjustments } })
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

/// Returns why it is too early to decide after `now` steps, if it is.
pub(crate) fn too_early(now: u64, warm_up_steps: u64, cooldown_until: u64) -> Option<KeepReason> {
    if now < warm_up_steps {
        Some(KeepReason::WarmUp { steps_left: warm_up_steps - now })
    } else if now < cooldown_until {
        Some(KeepReason::Cooldown { steps_left: cooldown_until - now })
    } else {
        None
    }
}

/// Returns a share of the budget, rounded down.
pub(crate) fn share(budget: Bytes, ratio: f64) -> Bytes {
    Bytes::from_f64_ceil((budget.as_f64() * ratio).floor())
}
