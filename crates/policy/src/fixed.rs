//! The policy that never moves.

use plimsoll_types::{Budget, Decision, KeepReason, Knobs, Recompute};
use serde::{Deserialize, Serialize};

use crate::controller::{Controller, Predict};
use crate::counts::{Failures, keep};
use crate::{PolicyError, StepMeasured, StepRefused};

/// The knobs of a run that never moves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedConfig {
    /// The knobs of every step; with several cells, the first edge of the last one and its batch.
    pub knobs: Knobs,
    /// The micro-batch of each cell, where samples are padded to several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub batch_sizes: Vec<u32>,
    /// Whether a plan chose them, and not the user.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_plan: bool,
}

impl FixedConfig {
    /// Returns knobs for samples of one edge.
    pub const fn of(knobs: Knobs) -> Self {
        Self { knobs, batch_sizes: Vec::new(), from_plan: false }
    }
}

/// Keeps the knobs, whatever happens: a step that runs out of memory is split anew each time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fixed {
    knobs: Knobs,
    batch_sizes: Vec<u32>,
    failures: Failures,
}

impl Fixed {
    /// Accepts the knobs.
    ///
    /// # Errors
    ///
    /// [`PolicyError::OutOfRange`] when a knob is zero.
    pub fn try_new(config: FixedConfig) -> Result<Self, PolicyError> {
        let FixedConfig { knobs, batch_sizes, .. } = config;
        if batch_sizes.contains(&0) {
            return Err(PolicyError::out_of_range("batch_sizes", format!("{batch_sizes:?}"), "at least 1 for each"));
        }
        if knobs.patch_size == 0 || knobs.micro_batch_size == 0 {
            return Err(PolicyError::out_of_range("knobs", knobs, "at least 1 for each"));
        }
        Ok(Self { knobs, batch_sizes, failures: Failures::default() })
    }

    /// Returns the micro-batch of each cell; none where samples are not padded.
    pub fn batch_sizes(&self) -> &[u32] {
        &self.batch_sizes
    }
}

impl Controller for Fixed {
    fn on_step_done(&mut self, _done: &StepMeasured, _predict: Predict<'_>) -> Decision {
        keep(KeepReason::Fixed)
    }

    fn on_step_failed(&mut self, failed: &StepRefused, _predict: Predict<'_>) -> Decision {
        self.failures.on_step_failed(failed.step);
        keep(KeepReason::Fixed)
    }

    fn on_budget_changed(&mut self, _step: u64, _budget: Budget, _predict: Predict<'_>) -> Decision {
        keep(KeepReason::Fixed)
    }

    fn on_checkpointing(&mut self, _: Recompute) {}

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
