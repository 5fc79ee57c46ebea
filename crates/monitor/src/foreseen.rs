//! What was predicted of the steps, against what was measured, in a few numbers.

use plimsoll_types::{Bytes, StepDone};
use serde::{Deserialize, Serialize};

use crate::text::share;

/// Peaks of the committed steps against what was predicted of each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForeseenReport {
    /// Steps that were predicted.
    pub steps: u64,
    /// By how much the peak and what was expected differ in the mean, as a part of the peak.
    pub mean_error: f64,
    /// The peak as a part of its upper bound, in the mean.
    pub mean_bound_share: f64,
    /// The most that it was.
    pub largest_bound_share: f64,
    /// Steps whose peak was above its bound.
    pub above_bound: u64,
}

/// Sums over the steps that were predicted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ForeseenSum {
    n: u64,
    error: f64,
    bound_share: f64,
    largest: f64,
    n_above: u64,
}

impl ForeseenSum {
    pub(crate) fn hear(&mut self, step: &StepDone) {
        let (Some(expected), Some(upper)) = (step.predicted, step.upper) else { return };
        if step.peak == Bytes::ZERO || upper == Bytes::ZERO {
            return;
        }
        let of_bound = step.peak.share_of(upper);
        self.n += 1;
        self.error += (expected.share_of(step.peak) - 1.0).abs();
        self.bound_share += of_bound;
        self.largest = self.largest.max(of_bound);
        self.n_above += u64::from(upper < step.peak);
    }

    /// Returns what they come to; `None` where nothing was predicted.
    pub(crate) fn report(self) -> Option<ForeseenReport> {
        let Self { n, error, bound_share, largest, n_above } = self;
        (0 < n).then(|| ForeseenReport {
            steps: n,
            mean_error: error / n as f64,
            mean_bound_share: bound_share / n as f64,
            largest_bound_share: largest,
            above_bound: n_above,
        })
    }
}

impl ForeseenReport {
    /// Writes it in a line.
    pub(crate) fn line(&self) -> String {
        let Self { steps, mean_error, mean_bound_share, largest_bound_share, above_bound } = *self;
        let above = if above_bound == 0 { String::new() } else { format!(", {above_bound} above it") };
        let (mean, most) = (share(mean_bound_share), share(largest_bound_share));
        format!(
            "of {steps} steps, off by {} in the mean; peaks {mean} of their bound in the mean, {most} at most{above}",
            share(mean_error)
        )
    }
}
