//! The policy that never moves.

use plimsoll_types::{BudgetChanged, Decision, KeepReason, Knobs, StepDone, StepFailed};
use serde::{Deserialize, Serialize};

use crate::PolicyError;
use crate::counts::{Failures, keep};
use crate::policy::{Controller, Predict};

/// The knobs of a run that never moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedConfig {
    /// The knobs of every step.
    pub knobs: Knobs,
}

/// Keeps the knobs, whatever happens: a step that runs out of memory is split anew each time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fixed {
    knobs: Knobs,
    failures: Failures,
}

impl Fixed {
    /// Accepts the knobs.
    ///
    /// # Errors
    ///
    /// [`PolicyError::OutOfRange`] when a knob is zero.
    pub fn try_new(config: FixedConfig) -> Result<Self, PolicyError> {
        let FixedConfig { knobs } = config;
        if knobs.patch_size == 0 || knobs.micro_batch_size == 0 {
            return Err(PolicyError::out_of_range("knobs", knobs, "at least 1 for each"));
        }
        Ok(Self { knobs, failures: Failures::default() })
    }
}

impl Controller for Fixed {
    fn on_step_done(&mut self, _done: &StepDone, _predict: Predict<'_>) -> Decision {
        keep(KeepReason::Fixed)
    }

    fn on_step_failed(&mut self, failed: &StepFailed) -> Decision {
        self.failures.on_step_failed(failed.step);
        keep(KeepReason::Fixed)
    }

    fn on_budget_changed(&mut self, _changed: &BudgetChanged, _predict: Predict<'_>) -> Decision {
        keep(KeepReason::Fixed)
    }

    fn knobs(&self) -> Knobs {
        self.knobs
    }

    fn adjustments(&self) -> u32 {
        0
    }

    fn oom_count(&self) -> u32 {
        self.failures.count()
    }
}
