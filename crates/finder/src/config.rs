//! What a finder may try, and how much of the device it may fill.

use std::ops::RangeInclusive;

use plimsoll_types::{Extent, Fraction, StepShape, edge_or_edges};
use serde::{Deserialize, Serialize};

use crate::FinderError;
use crate::error::check_range;

/// A million samples or positions: more is a typing error.
const LARGEST: u32 = 1 << 20;

/// What a finder may try, and how much of the device it may fill.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FinderConfig {
    /// What the samples of every trial are padded to: the largest of the run; 256 by default.
    #[serde(rename = "edge", with = "edge_or_edges")]
    pub extent: Extent,
    /// Smallest batch; 1 by default, and 2 suits a model with batch normalisation.
    pub batch_min: u32,
    /// Largest batch; 4096 by default, which is beyond what a larger batch makes faster on one device.
    pub batch_max: u32,
    /// Share of the capacity that a step may use; 0.9 by default, which leaves the rest to other processes, validation
    /// and what the trials did not show.
    pub target: Fraction,
    /// Share by which the answer is smaller than the largest batch that was found to fit, though not below `batch_min`.
    ///
    /// 0.05 by default, the reduction of Lightning's bisection and the gap that `OOMptimizer` leaves: a run's steps
    /// differ by more than a few trials show.
    pub batch_reduction: Fraction,
    /// Most trials; 6 by default, of which 3 or 4 are usually made.
    pub max_trials: u32,
    /// Batches up to this many samples run other kernels than every larger one, so that neither says anything of the
    /// other; 0, the default, where there is no such path.
    pub small_batch: u32,
    /// Whether a step that runs out of memory is a value here, and not the end of the process; `false` by default.
    pub survives: bool,
}

impl Default for FinderConfig {
    fn default() -> Self {
        Self {
            extent: Extent::new(256),
            batch_min: 1,
            batch_max: 4096,
            target: share(0.9),
            batch_reduction: share(0.05),
            max_trials: 6,
            small_batch: 0,
            survives: false,
        }
    }
}

impl FinderConfig {
    pub(crate) fn validate(&self) -> Result<(), FinderError> {
        self.extent.edges().iter().try_for_each(|edge| check_range("edge", edge, &(1..=LARGEST)))?;
        check_range("batch_max", &self.batch_max, &(1..=LARGEST))?;
        check_range("batch_min", &self.batch_min, &(1..=self.batch_max))?;
        check_range("target", &self.target, &(share(0.1)..=Fraction::ONE))?;
        check_range("batch_reduction", &self.batch_reduction, &(Fraction::ZERO..=share(0.9)))?;
        check_range("max_trials", &self.max_trials, &(1..=100))
    }

    pub(crate) const fn shape(&self, batch: u32) -> StepShape {
        StepShape::of(batch, self.extent)
    }

    /// Returns the batches that run the kernels of small ones, or `None` without any.
    pub(crate) fn small(&self) -> Option<RangeInclusive<u32>> {
        Some(self.batch_min..=self.small_batch.min(self.batch_max)).filter(|it| !it.is_empty())
    }

    /// Returns the batches above those, or `None` without any.
    pub(crate) fn large(&self) -> Option<RangeInclusive<u32>> {
        Some(self.batch_min.max(self.small_batch.saturating_add(1))..=self.batch_max).filter(|it| !it.is_empty())
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
        check(
            &FinderConfig { batch_min: 9, batch_max: 8, ..config.clone() },
            "find a batch size: `batch_min` is 9, allowed is 1 to 8",
        );
        check(
            &FinderConfig { extent: Extent::new(0), ..config.clone() },
            "find a batch size: `edge` is 0, allowed is 1 to 1048576",
        );
        check(
            &FinderConfig { target: Fraction::ZERO, ..config.clone() },
            "find a batch size: `target` is 0, allowed is 0.1 to 1",
        );
        check(&FinderConfig { max_trials: 0, ..config }, "find a batch size: `max_trials` is 0, allowed is 1 to 100");
    }

    #[test]
    fn the_reduction_rounds_down_and_stops_at_the_smallest_batch() {
        let config = FinderConfig { batch_min: 2, ..FinderConfig::default() };
        assert_eq!([2, 3, 20, 100].map(|batch| config.reduced(batch)), [2, 2, 19, 95]);
    }

    #[test]
    fn the_two_paths_share_no_batch_and_leave_none_out() {
        let paths = |batch_min, batch_max, small_batch| {
            let config = FinderConfig { batch_min, batch_max, small_batch, ..FinderConfig::default() };
            (config.small(), config.large())
        };
        assert_eq!(paths(1, 9, 0), (None, Some(1..=9)));
        assert_eq!(paths(2, 9, 4), (Some(2..=4), Some(5..=9)));
        assert_eq!(paths(1, 3, 4), (Some(1..=3), None));
        assert_eq!(paths(5, 9, 4), (None, Some(5..=9)));
    }
}
