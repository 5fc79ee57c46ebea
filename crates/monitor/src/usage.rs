//! Memory over a run in a few numbers.

use plimsoll_types::Bytes;
use serde::{Deserialize, Serialize};

use crate::run::Run;

/// Memory over the run, as statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The highest mark of a step.
    pub training_peak_bytes: Option<Bytes>,
    /// The highest mark of a validation.
    pub validation_peak_bytes: Option<Bytes>,
    /// The mean of the steps' high-water marks.
    pub average_peak_bytes: Option<Bytes>,
    /// In use after the last step.
    pub current_bytes: Option<Bytes>,
    /// Reserved after the last step.
    pub current_reserved_bytes: Option<Bytes>,
}

impl Usage {
    pub(crate) fn of(run: &Run<'_>) -> Self {
        let peaks: Vec<Bytes> = run.steps().map(|it| it.peak).collect();
        let sum: f64 = peaks.iter().map(|it| it.as_f64()).sum();
        let last = run.steps().last();
        Self {
            training_peak_bytes: peaks.iter().max().copied(),
            validation_peak_bytes: run.validations().map(|it| it.peak).max(),
            average_peak_bytes: last.map(|_| Bytes::from_f64_ceil(sum / peaks.len() as f64)),
            current_bytes: last.map(|it| it.in_use),
            current_reserved_bytes: last.map(|it| it.reserved),
        }
    }
}
