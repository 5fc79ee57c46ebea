//! What a finder may try, and how much of the device it may fill.

use plimsoll_types::{Fraction, StepShape};
use serde::{Deserialize, Serialize};

use crate::error::check_range;
use crate::{Bounds, PolicyError};

/// A million samples or positions: more is a typing error.
const LARGEST: u32 = 1 << 20;

/// What a finder may try, and how much of the device it may fill.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FinderConfig {
    /// Padded edge of every trial: the largest of the run; that of the default [`Bounds`] by default.
    pub edge: u32,
    /// Smallest batch, and the first that is tried; 1 by default, and 2 suits a model with batch normalisation.
    pub batch_min: u32,
    /// Largest batch; 4096 by default, which is beyond what a larger batch makes faster on one device.
    pub batch_max: u32,
    /// Share of the capacity that a step may use; 0.9 by default, which leaves the rest to other processes, validation
    /// and what the trials did not show.
    pub target: Fraction,
    /// Share by which the answer is smaller than the largest batch that was certified, though not below `batch_min`.
    ///
    /// 0.05 by default, the reduction of Lightning's bisection and the gap that `OOMptimizer` leaves: a run's steps
    /// differ by more than a few trials show.
    pub batch_reduction: Fraction,
    /// Most trials; 4 by default. With a plan three are enough and no more are made.
    pub max_trials: u32,
    /// By how much the need of equal steps may be above or below its mean, what is resident not counted; 0 by default,
    /// because on one stream without autotuning equal steps need the same.
    pub noise: Fraction,
    /// Pages that a real step may hold beyond its plan, until a trial has shown how many they are.
    ///
    /// 1 by default: where a runtime's queue keeps inputs alive, steps were measured to hold one page more.
    pub max_held_pages: u32,
}

impl Default for FinderConfig {
    fn default() -> Self {
        Self {
            edge: Bounds::default().patch_max,
            batch_min: 1,
            batch_max: 4096,
            target: share(0.9),
            batch_reduction: share(0.05),
            max_trials: 4,
            noise: Fraction::ZERO,
            max_held_pages: 1,
        }
    }
}

impl FinderConfig {
    pub(crate) fn validate(&self) -> Result<(), PolicyError> {
        check_range("edge", &self.edge, &(1..=LARGEST))?;
        check_range("batch_max", &self.batch_max, &(1..=LARGEST))?;
        check_range("batch_min", &self.batch_min, &(1..=self.batch_max))?;
        check_range("target", &self.target, &(share(0.1)..=Fraction::ONE))?;
        check_range("batch_reduction", &self.batch_reduction, &(Fraction::ZERO..=share(0.9)))?;
        check_range("max_trials", &self.max_trials, &(1..=100))?;
        check_range("noise", &self.noise, &(Fraction::ZERO..=share(0.25)))?;
        check_range("max_held_pages", &self.max_held_pages, &(0..=100))
    }

    pub(crate) const fn shape(&self, batch: u32) -> StepShape {
        StepShape::new(batch, self.edge)
    }

    /// Returns the batch less the reduction, rounded down but never below `batch_min`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a batch is a smaller, non-negative batch"
    )]
    pub(crate) fn reduced(&self, batch: u32) -> u32 {
        let reduced = f64::from(batch) * (1.0 - self.batch_reduction.get());
        (reduced.floor() as u32).max(self.batch_min)
    }
}

fn share(ratio: f64) -> Fraction {
    Fraction::try_new(ratio).expect("a constant between 0 and 1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(config: &FinderConfig, message: &str) {
        assert_eq!(config.validate().unwrap_err().to_string(), message);
    }

    #[test]
    fn a_refusal_names_key_value_and_range() {
        let config = FinderConfig::default();
        assert_eq!(config.validate(), Ok(()));
        check(&FinderConfig { batch_min: 9, batch_max: 8, ..config.clone() }, "batch_min is 9, allowed is 1 to 8");
        check(&FinderConfig { edge: 0, ..config.clone() }, "edge is 0, allowed is 1 to 1048576");
        check(&FinderConfig { target: Fraction::ZERO, ..config.clone() }, "target is 0, allowed is 0.1 to 1");
        check(&FinderConfig { noise: Fraction::ONE, ..config.clone() }, "noise is 1, allowed is 0 to 0.25");
        check(&FinderConfig { max_trials: 0, ..config }, "max_trials is 0, allowed is 1 to 100");
    }

    #[test]
    fn the_reduction_rounds_down_and_stops_at_the_smallest_batch() {
        let config = FinderConfig { batch_min: 2, ..FinderConfig::default() };
        assert_eq!([2, 3, 20, 100].map(|batch| config.reduced(batch)), [2, 2, 19, 95]);
    }
}
