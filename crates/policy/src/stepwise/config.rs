//! When the stepwise policy may move.

use plimsoll_types::Knobs;
use serde::{Deserialize, Serialize};

use crate::error::check_range;
use crate::{Bounds, PolicyError};

/// When the stepwise policy may move; the defaults are those of a trainer of image super-resolution on a 12 GB card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StepwiseConfig {
    /// How small and how large the knobs may be.
    pub bounds: Bounds,
    /// The first knobs; the smallest by default.
    pub start: Option<Knobs>,
    /// The share of the capacity aimed at; 0.85 by default.
    pub target: f64,
    /// The share of the capacity by which the peak may miss the target without a change; 0.05 by default.
    pub dead_band: f64,
    /// Steps before the first decision; 25 by default.
    pub warm_up_steps: u64,
    /// Steps after a change before the next decision, and half of those after out of memory; 25 by default.
    pub cooldown_steps: u64,
    /// Adjustments after which the policy switches itself off; 100 by default.
    pub max_adjustments: u32,
}

impl Default for StepwiseConfig {
    fn default() -> Self {
        Self {
            bounds: Bounds::default(),
            start: None,
            target: 0.85,
            dead_band: 0.05,
            warm_up_steps: 25,
            cooldown_steps: 25,
            max_adjustments: 100,
        }
    }
}

impl StepwiseConfig {
    /// Checks every key, and returns the first knobs.
    pub(crate) fn validate(&self) -> Result<Knobs, PolicyError> {
        self.bounds.validate()?;
        check_range("target", &self.target, &(0.1..=1.0))?;
        check_range("dead_band", &self.dead_band, &(0.0..=self.target))?;
        let start = self.start.unwrap_or(self.bounds.smallest());
        if self.bounds.contain(start) {
            return Ok(start);
        }
        let Bounds { patch_min, patch_max, patch_multiple, batch_min, batch_max } = self.bounds;
        let patches = format!("patch {patch_min} to {patch_max} in multiples of {patch_multiple}");
        Err(PolicyError::out_of_range("start", start, format!("{patches}, batch {batch_min} to {batch_max}")))
    }
}
