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
    /// How it follows an effective batch that varies.
    #[serde(default)]
    pub scaling: Scaling,
}

/// How a learning rate follows the effective batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scaling {
    /// Not at all.
    #[default]
    None,
    /// As the square root of the batch, which keeps the noise of Adam's steps alike.
    ///
    /// # Sources
    ///
    /// Malladi et al., "On the SDEs and Scaling Rules for Adaptive Gradient Algorithms", arXiv 2205.10287.
    Sqrt,
    /// As the batch.
    ///
    /// # Sources
    ///
    /// Goyal et al., arXiv 1706.02677.
    Linear,
}

impl Scaling {
    /// Returns the factor for a batch that is `ratio` times the one that the learning rate is for.
    pub fn factor(self, ratio: f64) -> f64 {
        match self {
            Self::None => 1.0,
            Self::Sqrt => ratio.sqrt(),
            Self::Linear => ratio,
        }
    }
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
        let rate = LearningRate { peak: 0.4, warm_up_steps: 4, final_share: 0.1, scaling: Scaling::None };
        let check = |step, expected: f64| assert!((rate.at(step, 104) - expected).abs() < 1e-12, "step {step}");
        check(0, 0.1);
        check(3, 0.4);
        check(4, 0.4);
        check(54, 0.22);
        check(104, 0.04);
        check(500, 0.04);
    }

    #[test]
    fn the_rate_follows_the_batch_as_asked() {
        let check = |scaling: Scaling, ratio, expected: f64| assert!((scaling.factor(ratio) - expected).abs() < 1e-12);
        check(Scaling::None, 4.0, 1.0);
        check(Scaling::Sqrt, 4.0, 2.0);
        check(Scaling::Linear, 4.0, 4.0);
        check(Scaling::Sqrt, 0.25, 0.5);
    }
}
