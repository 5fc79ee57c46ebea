//! When the certified policy may move.

use plimsoll_types::Knobs;
use serde::{Deserialize, Serialize};

use crate::error::check_range;
use crate::{Bounds, PolicyError};

/// When the certified policy may move; the defaults suit training steps of 10 ms to some seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CertifiedConfig {
    /// The ladder's ends.
    pub bounds: Bounds,
    /// The first rung; the lowest by default, because nothing is known yet.
    pub start: Option<Knobs>,
    /// A rung may be entered when its upper bound is within this share of the budget.
    ///
    /// 0.985 by default: 1 % below `lower_above`, and rounding of the certificate stayed within 1 % in every workload
    /// that was tried, so that a valid bound is never followed by a step back.
    pub raise_below: f64,
    /// A rung is left when its peak is above this share of the budget.
    ///
    /// 0.995 by default: above it, one allocation's rounding away, memory runs out.
    pub lower_above: f64,
    /// Taken off `raise_below`: the share of the budget by which equal steps differ; 0 by default, because on one
    /// stream without autotuning they do not.
    pub noise: f64,
    /// After out of memory, the next rung has at most this share of the failed rung's `n·e²`.
    ///
    /// 0.85 by default: the largest drop of capacity that the simulations behind this policy had to survive.
    pub retreat_to: f64,
    /// Steps before the first increase.
    ///
    /// 3 by default: the first step compiles, and creates the optimizer's state at its end; the second is the first
    /// with all that is resident; the third confirms it.
    pub warm_up_steps: u64,
    /// Steps after a change before the next increase; 3 by default, for the same reasons at the new shape.
    pub cooldown_steps: u64,
    /// Steps at a rung before the next increase; 3 by default.
    ///
    /// Unlike the cooldown they count only steps that ran at the rung.
    pub min_samples: u32,
    /// Least gain in `n·e²` for which an increase is worth it.
    ///
    /// 0.02 by default: each new shape compiles or tunes anew, and timing noise hides less than 2 %.
    pub min_gain: f64,
    /// Steps until a closed rung opens, at a budget that stays; doubled where it fails again before it was open and in use
    /// for as long.
    ///
    /// 180 by default: a failure costs about three steps, so at first at most 1.7 % of the work is lost; and 200 steps
    /// later the run is back.
    pub reopen_after_steps: u64,
    /// Growths that were undone though the budget was the same, after which there is no way up until a thousand steps
    /// have taken one off; 20 by default.
    ///
    /// A run whose bounds hold makes none.
    pub max_reversals: u32,
}

impl Default for CertifiedConfig {
    fn default() -> Self {
        Self {
            bounds: Bounds::default(),
            start: None,
            raise_below: 0.985,
            lower_above: 0.995,
            noise: 0.0,
            retreat_to: 0.85,
            warm_up_steps: 3,
            cooldown_steps: 3,
            min_samples: 3,
            min_gain: 0.02,
            reopen_after_steps: 180,
            max_reversals: 20,
        }
    }
}

impl CertifiedConfig {
    /// Checks every key but the bounds and the start, which the ladder checks.
    pub(crate) fn validate(&self) -> Result<(), PolicyError> {
        check_range("lower_above", &self.lower_above, &(0.5..=1.0))?;
        check_range("raise_below", &self.raise_below, &(0.5..=self.lower_above))?;
        check_range("noise", &self.noise, &(0.0..=0.25))?;
        check_range("retreat_to", &self.retreat_to, &(0.0..=1.0))?;
        check_range("min_samples", &self.min_samples, &(1..=10_000))?;
        check_range("min_gain", &self.min_gain, &(0.0..=1.0))?;
        check_range("reopen_after_steps", &self.reopen_after_steps, &(1..=1_000_000_000))?;
        check_range("max_reversals", &self.max_reversals, &(1..=1_000_000))
    }
}
