//! Memory over a run in a few numbers.

use plimsoll_types::{Bytes, StepDone};
use serde::{Deserialize, Serialize};

use crate::run::Run;

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

impl Usage {
    pub(crate) fn of(run: &Run<'_>) -> Self {
        let peaks: Vec<Bytes> = run.steps().map(|it| it.peak).collect();
        let sum: f64 = peaks.iter().map(|it| it.as_f64()).sum();
        let last = run.steps().last();
        Self {
            training_peak_bytes: run.peak_of_steps(),
            validation_peak_bytes: run.peak_of_validations(),
            average_peak_bytes: last.map(|_| Bytes::from_f64_ceil(sum / peaks.len() as f64)),
            current_bytes: last.map(|it| it.in_use),
            current_reserved_bytes: last.map(|it| it.reserved),
        }
    }
}

/// Returns the median share of the budget that the committed steps after the last adjustment reached.
pub(crate) fn steady_budget_share(run: &Run<'_>) -> Option<f64> {
    median_share(&run.after_last_move())
}

/// Returns the median share of the budget that committed steps reached.
pub(crate) fn median_share(steps: &Run<'_>) -> Option<f64> {
    let has_budget = |it: &&StepDone| Bytes::ZERO < it.budget;
    median(steps.committed().filter(has_budget).map(|it| it.peak.share_of(it.budget)).collect())
}

/// Returns the middle of some values, which are finite; of an even number, the mean of the middle two.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(median(vec![3.0, 1.0, 2.0, 10.0]), Some(2.5));
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![]), None);
    }
}
