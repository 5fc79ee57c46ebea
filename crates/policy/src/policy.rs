//! One face for the four policies.

use plimsoll_types::{Decision, Knobs, Ladder};
use serde::{Deserialize, Serialize};

use crate::controller::{Controller, Predict};
use crate::{
    Bucketed, BucketedConfig, Certified, CertifiedConfig, Fixed, FixedConfig, PolicyError, Signal, Stepwise,
    StepwiseConfig,
};

/// Which policy a run follows, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PolicyConfig {
    /// Jump to the highest rung whose upper bound fits.
    Certified(CertifiedConfig),
    /// For each cell, the largest batch whose upper bound fits.
    Bucketed(BucketedConfig),
    /// Step by thresholds on the measured peak.
    Stepwise(StepwiseConfig),
    /// Never move.
    Fixed(FixedConfig),
}

impl Default for PolicyConfig {
    fn default() -> Self {
        Self::Certified(CertifiedConfig::default())
    }
}

/// A policy with its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Policy {
    /// Jumps to the highest rung whose upper bound fits.
    Certified(Certified),
    /// Has for each cell the largest batch whose upper bound fits.
    Bucketed(Bucketed),
    /// Steps by thresholds on the measured peak.
    Stepwise(Stepwise),
    /// Never moves.
    Fixed(Fixed),
}

impl Policy {
    /// Makes the policy that `config` describes, at its start.
    ///
    /// # Errors
    ///
    /// [`PolicyError::OutOfRange`] for the first key whose value is not allowed.
    pub fn try_new(config: PolicyConfig) -> Result<Self, PolicyError> {
        Ok(match config {
            PolicyConfig::Certified(config) => Self::Certified(Certified::try_new(config)?),
            PolicyConfig::Bucketed(config) => Self::Bucketed(Bucketed::try_new(config)?),
            PolicyConfig::Stepwise(config) => Self::Stepwise(Stepwise::try_new(config)?),
            PolicyConfig::Fixed(config) => Self::Fixed(Fixed::try_new(config)?),
        })
    }

    /// Answers a signal; only that gradient checkpointing is on asks for no answer.
    ///
    /// The decision is already in [`knobs`](Self::knobs).
    pub fn on_signal(&mut self, signal: &Signal, predict: Predict<'_>) -> Option<Decision> {
        let controller = self.controller_mut();
        match signal {
            Signal::Done(done) => Some(controller.on_step_done(done, predict)),
            Signal::OutOfMemory(refused) => Some(controller.on_step_failed(refused, predict)),
            Signal::BudgetChanged { step, budget } => Some(controller.on_budget_changed(*step, *budget, predict)),
            Signal::Checkpointing(recompute) => {
                controller.on_checkpointing(*recompute);
                None
            }
        }
    }

    /// Returns the knobs of the next step; with several cells, the first edge of the last one and its batch.
    pub fn knobs(&self) -> Knobs {
        self.controller().knobs()
    }

    /// Returns how many times the knobs, or the batch sizes, have changed.
    pub fn adjustments(&self) -> u32 {
        self.controller().adjustments()
    }

    /// Returns how many steps ran out of memory; a step that had to be split several times counts once.
    pub fn oom_count(&self) -> u32 {
        self.controller().oom_count()
    }

    /// Returns the rungs that the policy moves on, where it has any.
    pub fn ladder(&self) -> Option<&Ladder> {
        match self {
            Self::Certified(certified) => Some(certified.ladder()),
            Self::Bucketed(_) | Self::Stepwise(_) | Self::Fixed(_) => None,
        }
    }

    /// Returns the largest micro-batch of each cell, where samples are padded: at least 1, and unless they are fixed never more
    /// for a cell than for one that it covers.
    pub fn batch_sizes(&self) -> Option<&[u32]> {
        match self {
            Self::Bucketed(bucketed) => Some(bucketed.batch_sizes()),
            Self::Fixed(fixed) => Some(fixed.batch_sizes()).filter(|it| !it.is_empty()),
            Self::Certified(_) | Self::Stepwise(_) => None,
        }
    }

    /// Returns the policy's `kind` in a configuration.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Certified(_) => "certified",
            Self::Bucketed(_) => "bucketed",
            Self::Stepwise(_) => "stepwise",
            Self::Fixed(_) => "fixed",
        }
    }

    fn controller(&self) -> &dyn Controller {
        match self {
            Self::Certified(certified) => certified,
            Self::Bucketed(bucketed) => bucketed,
            Self::Stepwise(stepwise) => stepwise,
            Self::Fixed(fixed) => fixed,
        }
    }

    fn controller_mut(&mut self) -> &mut dyn Controller {
        match self {
            Self::Certified(certified) => certified,
            Self::Bucketed(bucketed) => bucketed,
            Self::Stepwise(stepwise) => stepwise,
            Self::Fixed(fixed) => fixed,
        }
    }
}
