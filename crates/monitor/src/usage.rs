//! Memory over a run in a few numbers.

use plimsoll_types::{Bytes, StepDone, Validated};
use serde::{Deserialize, Serialize};

use crate::tail::Last;

/// Memory over the run, as statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The highest mark of a step.
    pub training_peak_bytes: Option<Bytes>,
    /// The highest mark of a validation, or of the test.
    pub validation_peak_bytes: Option<Bytes>,
    /// The mean of the steps' high-water marks.
    pub average_peak_bytes: Option<Bytes>,
    /// In use after the last step.
    pub current_bytes: Option<Bytes>,
    /// Reserved after the last step.
    pub current_reserved_bytes: Option<Bytes>,
}

/// High-water marks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Peaks {
    steps: Option<Bytes>,
    validations: Option<Bytes>,
    test: Option<Bytes>,
    /// Those of the steps together, and how many these are.
    sum: (f64, u64),
}

impl Peaks {
    pub(crate) fn step(&mut self, step: &StepDone) {
        self.steps = self.steps.max(Some(step.peak));
        self.sum = (self.sum.0 + step.peak.as_f64(), self.sum.1 + 1);
    }

    pub(crate) fn validate(&mut self, validated: &Validated) {
        self.validations = self.validations.max(Some(validated.peak));
    }

    pub(crate) const fn test(&mut self, tested: &Validated) {
        self.test = Some(tested.peak);
    }

    /// Returns the highest mark of the steps.
    pub(crate) const fn of_steps(&self) -> Option<Bytes> {
        self.steps
    }

    /// Returns the highest mark of the validations and the test.
    pub(crate) fn of_validations(&self) -> Option<Bytes> {
        self.validations.max(self.test)
    }
}

impl Usage {
    pub(crate) fn of(peaks: &Peaks, last: Option<&Last>) -> Self {
        let (sum, n) = peaks.sum;
        Self {
            training_peak_bytes: peaks.of_steps(),
            validation_peak_bytes: peaks.of_validations(),
            average_peak_bytes: (0 < n).then(|| Bytes::from_f64_ceil(sum / n as f64)),
            current_bytes: last.map(|it| it.in_use),
            current_reserved_bytes: last.map(|it| it.reserved),
        }
    }
}
