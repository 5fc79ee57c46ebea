//! The policy that steps by thresholds on the measured peak.

mod brake;
mod config;
mod rule;

use plimsoll_types::{Budget, Bytes, Change, Decision, KeepReason, Knobs, MoveReason, Recompute};
use serde::{Deserialize, Serialize};

use self::brake::{Brake, too_early};
pub use self::config::StepwiseConfig;
use crate::controller::{Controller, Predict};
use crate::counts::{Failures, keep, share};
use crate::{PolicyError, StepMeasured, StepRefused};

/// Grows below a dead band around the target and shrinks above it, by steps that depend on the distance.
///
/// The patch grows before the batch, by `trunc(room / 0.05)` pixels or `trunc(room / 0.03)` samples, 2 to 8 each.
/// The batch shrinks before the patch, by 2, or by 4 far above the target.
/// Out of memory halves both and doubles the cooldown.
/// The room is a share of the *capacity*: this policy has its own target.
///
/// A step that the preflight check divided reads the peak of its parts, which says nothing of the knobs: it counts as if
/// it had needed all of its budget, and at least the target, so that knobs which do not fit whole never grow.
///
/// The window starts anew with each change and holds steps at the new knobs only, as a device's reset peak counter
/// does.
/// After the last adjustment the policy is off: not even out of memory moves it, and each such step is split anew.
///
/// # Sources
///
/// The memory optimiser of an image super-resolution trainer; kept for comparison and for devices that nothing
/// predicts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stepwise {
    config: StepwiseConfig,
    knobs: Knobs,
    window_peak: Option<Bytes>,
    cooldown_until: u64,
    brake: Brake,
    failures: Failures,
}

impl Stepwise {
    /// Accepts a configuration, and starts with its first knobs.
    ///
    /// # Errors
    ///
    /// [`PolicyError::OutOfRange`] for the first key whose value is not allowed.
    pub fn try_new(config: StepwiseConfig) -> Result<Self, PolicyError> {
        let knobs = config.validate()?;
        let (brake, failures) = Default::default();
        Ok(Self { config, knobs, window_peak: None, cooldown_until: 0, brake, failures })
    }

    /// Returns what a divided step counts with: undivided it would have needed more than there was.
    fn at_the_line(&self, done: &StepMeasured) -> Bytes {
        let target = share(done.budget.capacity, self.config.target);
        done.peak.max(done.budget.budget).max(target)
    }

    fn judge(&mut self, now: u64, capacity: Bytes) -> Decision {
        if let Some(decision) = self.brake.decision(self.config.max_adjustments) {
            return decision;
        }
        if let Some(reason) = too_early(now, self.config.warm_up_steps, self.cooldown_until) {
            return keep(reason);
        }
        let Some(peak) = self.window_peak else {
            return keep(KeepReason::TooFewSamples { seen: 0, needed: 1 });
        };
        let StepwiseConfig { target, dead_band, .. } = self.config;
        let (ratio, low, high) = (peak.share_of(capacity), target - dead_band, target + dead_band);
        let limit = |ratio: f64| Bytes::from_f64_ceil((capacity.as_f64() * ratio).round());
        if ratio < low {
            let to = rule::grown(&self.config, self.knobs, ratio);
            self.move_to(to, now, MoveReason::PeakTooLow { peak, limit: limit(low) })
        } else if high < ratio {
            let to = rule::shrunk(&self.config, self.knobs, ratio);
            self.move_to(to, now, MoveReason::PeakTooHigh { peak, limit: limit(high) })
        } else {
            keep(KeepReason::InDeadBand)
        }
    }

    fn move_to(&mut self, to: Knobs, now: u64, reason: MoveReason) -> Decision {
        let from = self.knobs;
        if to == from {
            return keep(KeepReason::AtBounds);
        }
        self.knobs = to;
        self.window_peak = None;
        self.cooldown_until = now.saturating_add(self.config.cooldown_steps);
        self.brake.on_adjustment();
        Decision::Move(Change { from, to, reason })
    }
}

impl Controller for Stepwise {
    fn on_step_done(&mut self, done: &StepMeasured, _predict: Predict<'_>) -> Decision {
        // The step in which the knobs moved still ran with the old ones.
        if done.knobs == self.knobs {
            let peak = if done.is_divided { self.at_the_line(done) } else { done.peak };
            self.window_peak = self.window_peak.max(Some(peak));
        }
        self.judge(done.step.saturating_add(1), done.budget.capacity)
    }

    fn on_step_failed(&mut self, failed: &StepRefused, _predict: Predict<'_>) -> Decision {
        let now = failed.step.saturating_add(1);
        let is_first = self.failures.on_step_failed(failed.step);
        if let Some(decision) = self.brake.decision(self.config.max_adjustments) {
            return decision;
        }
        if !is_first {
            return keep(KeepReason::Cooldown { steps_left: self.cooldown_until.saturating_sub(now) });
        }
        let to = rule::halved(&self.config, self.knobs);
        let decision = self.move_to(to, now, MoveReason::OutOfMemory { count: self.failures.count() });
        self.cooldown_until = now.saturating_add(self.config.cooldown_steps.saturating_mul(2));
        decision
    }

    fn on_budget_changed(&mut self, step: u64, budget: Budget, _predict: Predict<'_>) -> Decision {
        self.judge(step, budget.capacity)
    }

    fn on_checkpointing(&mut self, _: Recompute) {
        self.window_peak = None;
    }

    fn knobs(&self) -> Knobs {
        self.knobs
    }

    fn adjustments(&self) -> u32 {
        self.brake.adjustments()
    }

    fn oom_count(&self) -> u32 {
        self.failures.count()
    }
}
