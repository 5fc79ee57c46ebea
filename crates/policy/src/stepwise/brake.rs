//! When the stepwise policy may move.

use plimsoll_types::{BrakeReason, Decision, KeepReason};
use serde::{Deserialize, Serialize};

use crate::counts::keep;

/// Adjustments so far, and whether the policy has said that they are enough.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Brake {
    adjustments: u32,
    announced: bool,
}

impl Brake {
    pub(super) fn on_adjustment(&mut self) {
        self.adjustments = self.adjustments.saturating_add(1);
    }

    pub(super) fn adjustments(&self) -> u32 {
        self.adjustments
    }

    /// Returns the answer of a policy that has made all its adjustments: it says so once.
    pub(super) fn decision(&mut self, max_adjustments: u32) -> Option<Decision> {
        if self.adjustments < max_adjustments {
            return None;
        }
        let announced = std::mem::replace(&mut self.announced, true);
        let brake = Decision::Brake { reason: BrakeReason::Adjustments { count: self.adjustments } };
        Some(if announced { keep(KeepReason::Braked) } else { brake })
    }
}

/// Returns why it is too early to decide after `now` steps, if it is.
pub(super) fn too_early(now: u64, warm_up_steps: u64, cooldown_until: u64) -> Option<KeepReason> {
    if now < warm_up_steps {
        Some(KeepReason::WarmUp { steps_left: warm_up_steps - now })
    } else if now < cooldown_until {
        Some(KeepReason::Cooldown { steps_left: cooldown_until - now })
    } else {
        None
    }
}
