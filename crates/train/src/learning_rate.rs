//! The learning rate as a function of the step.

use serde::{Deserialize, Serialize};

/// Linear warm-up to a peak, then a cosine down to a share of it.
///
/// A function of the step alone, so a resumed run needs no state for it.
///
/// # Sources
///
/// Goyal et al., arXiv 1706.02677 (warm-up); Loshchilov and Hutter, arXiv 1608.03983 (cosine).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearningRate {
    /// The highest learning rate, reached after the warm-up.
    pub peak: f64,
    /// Steps until then.
    pub warm_up_steps: u64,
    /// The share of `peak` that is left at the last step.
    pub final_share: f64,
}

impl LearningRate {
    /// Returns the learning rate of a step of a run of `n_steps`.
    pub fn at(&self, step: u64, n_steps: u64) -> f64 {
        if step < self.warm_up_steps {
            return self.peak * (step + 1) as f64 / self.warm_up_steps as f64;
        }
        let span = n_steps.saturating_sub(self.warm_up_steps).max(1);
        let done = (step - self.warm_up_steps) as f64 / span as f64;
        let cosine = 0.5 * (1.0 + (std::f64::consts::PI * done.min(1.0)).cos());
        self.peak * (self.final_share + (1.0 - self.final_share) * cosine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_rises_to_its_peak_and_falls_to_its_final_share() {
        let rate = LearningRate { peak: 0.4, warm_up_steps: 4, final_share: 0.1 };
        let check = |step, expected: f64| assert!((rate.at(step, 104) - expected).abs() < 1e-12, "step {step}");
        check(0, 0.1);
        check(3, 0.4);
        check(4, 0.4);
        check(54, 0.22);
        check(104, 0.04);
        check(500, 0.04);
    }
}
