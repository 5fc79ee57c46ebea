//! What the cells of a device add up to.

use plimsoll_predict::{Coverage, PredictError, Source};
use plimsoll_types::Bytes;
use serde::Serialize;

use super::{CellRow, Judged};
use crate::median::median;

/// Confidence of the interval of violations.
const CONFIDENCE: f64 = 0.95;

/// All cells of a job on a device, with or without gradient checkpointing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The reference job.
    pub job: String,
    /// The device.
    pub device: String,
    /// Whether activations are recomputed in the backward pass.
    pub checkpointing: bool,
    /// Planned reserved against real, on a device that keeps pools.
    pub errors: Option<Errors>,
    /// Over all cells.
    pub all: Figures,
    /// Over the cells that the plan itself did not run.
    pub unseen: Figures,
    /// Over the same cells, of what is in use above what was resident; `None` where that is not known.
    pub unseen_above_resident: Option<AboveResident>,
    /// Planning.
    pub planning_ms: Planning,
}

/// How far the planned pools are from real ones, in cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Errors {
    /// Less was planned than is reserved.
    pub below: usize,
    /// Equal to the byte.
    pub equal: usize,
    /// At most one page more was planned.
    pub within_one_page: usize,
    /// More.
    pub more: usize,
}

/// How good plan and bound are: of all that is in use where that is known, else of all that is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Measurements above their upper bound, with the interval of their probability.
    pub violations: Coverage,
    /// Median of the error of the expected value, as a share of what was measured.
    pub error_median: f64,
    /// The largest of these errors.
    pub error_max: f64,
    /// Median of the upper bound's distance from what was measured, as a share of that.
    pub slack_median: f64,
    /// Mean of it.
    pub slack_mean: f64,
}

/// How good plan and bound are of what a step adds to what is resident.
///
/// The buffers of a run's loader, and all else that stays, make shares of the whole look small.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AboveResident {
    /// Median of the error of the expected value, as a share of what the step added.
    pub error_median: f64,
    /// Median of the upper bound's distance from what was measured, as a share of what the step added.
    pub slack_median: f64,
}

/// Wall time of planning a cell, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Planning {
    /// Median over the cells.
    pub median: f64,
    /// The slowest cell.
    pub max: f64,
}

impl Summary {
    /// Sums up cells of one job on one device, all with or all without gradient checkpointing.
    ///
    /// # Errors
    ///
    /// Those of [`Coverage::try_new`].
    pub fn try_new(job: &str, device: &str, checkpointing: bool, cells: &[&CellRow]) -> Result<Self, PredictError> {
        let unseen: Vec<_> = cells.iter().copied().filter(|it| it.source != Source::Memo).collect();
        let times: Vec<_> = unseen.iter().map(|it| it.planning_ms).collect();
        Ok(Self {
            job: job.to_owned(),
            device: device.to_owned(),
            checkpointing,
            errors: cells.iter().any(|it| it.measured_total.is_some()).then(|| Errors::of(cells)),
            all: Figures::try_new(cells)?,
            unseen: Figures::try_new(&unseen)?,
            unseen_above_resident: AboveResident::of(&unseen),
            planning_ms: Planning { median: median(&times), max: times.iter().copied().fold(0.0, f64::max) },
        })
    }
}

impl Errors {
    fn of(cells: &[&CellRow]) -> Self {
        let mut errors = Self::default();
        for cell in cells {
            let count = match cell.predicted_reserved.checked_sub(cell.measured_reserved) {
                None => &mut errors.below,
                Some(Bytes::ZERO) => &mut errors.equal,
                Some(above) if above <= cell.page => &mut errors.within_one_page,
                Some(_) => &mut errors.more,
            };
            *count += 1;
        }
        errors
    }
}

impl Figures {
    fn try_new(cells: &[&CellRow]) -> Result<Self, PredictError> {
        let n_violations = cells.iter().filter(|it| it.violates()).count() as u64;
        let judged: Vec<Judged> = cells.iter().filter_map(|it| it.judged()).collect();
        let errors: Vec<_> = judged.iter().map(|it| (it.expected.share_of(it.measured) - 1.0).abs()).collect();
        let slacks: Vec<_> = judged.iter().map(|it| it.upper.share_of(it.measured) - 1.0).collect();
        Ok(Self {
            violations: Coverage::try_new(n_violations, cells.len() as u64, CONFIDENCE)?,
            error_median: median(&errors),
            error_max: errors.iter().copied().fold(0.0, f64::max),
            slack_median: median(&slacks),
            slack_mean: slacks.iter().sum::<f64>() / slacks.len().max(1) as f64,
        })
    }
}

impl AboveResident {
    fn of(cells: &[&CellRow]) -> Option<Self> {
        let own = |it: &&&CellRow| Some((it.judged()?, it.resident)).filter(|_| it.measured_in_use.is_some());
        let own: Vec<_> = cells.iter().filter_map(|it| own(&it)).collect();
        let shares = |of: &dyn Fn(Judged) -> f64| -> Vec<f64> {
            let share =
                |(it, resident): &(Judged, Bytes)| of(*it) / it.measured.saturating_sub(*resident).as_f64().max(1.0);
            own.iter().map(share).collect()
        };
        (!own.is_empty()).then(|| Self {
            error_median: median(&shares(&|it| (it.expected.as_f64() - it.measured.as_f64()).abs())),
            slack_median: median(&shares(&|it| it.upper.as_f64() - it.measured.as_f64())),
        })
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_predict::Phase;

    use super::*;

    /// A cell with pages of 4 MiB, in MiB.
    fn pooled(predicted: u64, measured: u64, upper_total: u64, measured_total: u64) -> CellRow {
        CellRow {
            job: "sr".into(),
            device: "vulkan:0".into(),
            checkpointing: false,
            phase: Phase::Train,
            batch: 8,
            extent: 32.into(),
            n_samples: 16,
            source: Source::DryRun,
            predicted_reserved: Bytes::mib(predicted),
            measured_reserved: Bytes::mib(measured),
            predicted_total: Some(Bytes::mib(upper_total)),
            upper_total: Some(Bytes::mib(upper_total)),
            measured_total: Some(Bytes::mib(measured_total)),
            page: Bytes::mib(4),
            predicted_in_use: None,
            upper_in_use: None,
            measured_in_use: None,
            resident: Bytes(510),
            planning_ms: 10.0,
            step_seconds: 0.5,
        }
    }

    /// A cell without pools.
    fn probed(source: Source, predicted: u64, upper: u64, measured: u64) -> CellRow {
        let [predicted, upper, measured] = [predicted, upper, measured].map(Bytes);
        CellRow {
            source,
            predicted_reserved: predicted,
            measured_reserved: measured,
            predicted_total: None,
            upper_total: None,
            measured_total: None,
            page: Bytes::ZERO,
            predicted_in_use: Some(predicted),
            upper_in_use: Some(upper),
            measured_in_use: Some(measured),
            ..pooled(0, 0, 0, 0)
        }
    }

    fn summary(cells: &[CellRow]) -> Summary {
        Summary::try_new("sr", "device", false, &cells.iter().collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn each_error_of_a_plan_is_counted_once() {
        let cells = [
            pooled(16, 16, 18, 17),
            pooled(16, 16, 18, 18),
            pooled(20, 16, 22, 17),
            pooled(24, 16, 26, 17),
            pooled(12, 16, 14, 17),
            pooled(16, 16, 17, 18),
        ];
        let summary = summary(&cells);
        assert_eq!(summary.unseen_above_resident, None);
        assert_eq!(summary.errors, Some(Errors { below: 1, equal: 3, within_one_page: 1, more: 1 }));
        assert_eq!((summary.all.violations.n_violations, summary.all.violations.n), (2, 6));
        assert!(0.7 < summary.all.violations.upper && summary.all.violations.lower < 0.05);
    }

    #[test]
    fn a_bound_is_violated_by_a_byte() {
        let cells = [
            probed(Source::Certificate, 900, 1010, 1010),
            probed(Source::Certificate, 1020, 1000, 1011),
            probed(Source::Certificate, 990, 1040, 1000),
            probed(Source::Memo, 500, 500, 1000),
        ];
        let summary = summary(&cells);
        assert_eq!(summary.errors, None);
        assert_eq!((summary.all.violations.n_violations, summary.all.violations.n), (2, 4));
        assert_eq!((summary.unseen.violations.n_violations, summary.unseen.violations.n), (1, 3));
        assert!((summary.unseen.error_median - 0.01).abs() < 1e-9, "{}", summary.unseen.error_median);
        assert!((summary.unseen.error_max - 110.0 / 1010.0).abs() < 1e-9, "{}", summary.unseen.error_max);
        let above = summary.unseen_above_resident.unwrap();
        // Of 500, 501 and 490 bytes above the resident ones: errors of 110, 9 and 10, slacks of 0, -11 and 40.
        assert!((above.error_median - 10.0 / 490.0).abs() < 1e-9, "{above:?}");
        assert!(above.slack_median.abs() < 1e-9, "{above:?}");
        assert!(summary.unseen.slack_median.abs() < 1e-9, "{}", summary.unseen.slack_median);
    }

    #[test]
    fn the_median_is_the_middle_or_between_the_middles() {
        assert!(median(&[]).abs() < f64::EPSILON);
        assert!((median(&[5.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((median(&[4.0, 1.0, 2.0, 100.0]) - 3.0).abs() < f64::EPSILON);
    }
}
