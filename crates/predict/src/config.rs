//! What a predictor is told.

use std::ops::RangeInclusive;

use plimsoll_types::{Bytes, Features};
use serde::{Deserialize, Serialize};

use crate::PredictError;

/// What is added to a bound that the program alone does not explain.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PredictorConfig {
    /// Fraction added to every upper bound for the rounding of allocations, 0 to 1.
    ///
    /// 0.01: 1 % covered alignment in each of four simulated workloads.
    pub rounding_margin: f64,
    /// Factor on the bound of another regime while the asked one has no observation, 1 to 100.
    ///
    /// 3.0: an assumption, for kernels whose workspace is up to twice as large as everything else in the step.
    pub regime_margin: f64,
    /// What is added once to every upper bound for what is no tensor of the step: tables that grow by doubling, or the
    /// last page of an allocator, which is partly empty.
    pub beside: Bytes,
    /// What the tensors of a step are combinations of; a bound holds as far as they are complete for the job.
    pub features: Features,
}

impl Default for PredictorConfig {
    fn default() -> Self {
        Self { rounding_margin: 0.01, regime_margin: 3.0, beside: Bytes::ZERO, features: Features::complete(1) }
    }
}

impl PredictorConfig {
    /// The default, for a program whose samples have a length, with these features.
    ///
    /// # Errors
    ///
    /// [`PredictError::NotOfLengths`] for features over several axes.
    pub fn of_lengths(features: Features) -> Result<Self, PredictError> {
        let n_axes = features.n_axes();
        if n_axes == 1 { Ok(Self { features, ..Self::default() }) } else { Err(PredictError::NotOfLengths(n_axes)) }
    }

    pub(crate) fn check(&self) -> Result<(), PredictError> {
        check_range("rounding_margin", self.rounding_margin, 0.0..=1.0)?;
        check_range("regime_margin", self.regime_margin, 1.0..=100.0)
    }
}

pub(crate) fn check_range(key: &'static str, value: f64, allowed: RangeInclusive<f64>) -> Result<(), PredictError> {
    if allowed.contains(&value) { Ok(()) } else { Err(PredictError::OutOfRange { key, value, allowed }) }
}
