//! Which changes would help most.

use crate::change::SettingChange;
use crate::limit::{Limit, WELL_USED};
use crate::step_settings::{ChosenBy, StepSettings};
use crate::summary::TrainingReport;
use crate::text::{share, time};
use crate::work::MUCH as MUCH_PADDING;

/// The most changes that are named: of many, none is made.
const MOST: usize = 3;
/// The part of a run's time from which on lost time is worth a change.
const MUCH_TIME: f64 = 0.1;
/// Seconds below which nobody changes a setting for lost time, whatever part of a run they are.
const LEAST_TIME: f64 = 10.0;

/// Names the changes that would help most, the first of them first.
///
/// `waiting` is what steps waited for their samples in seconds, and which part of their time that was.
pub(crate) fn changes(
    report: &TrainingReport,
    waiting: Option<(f64, f64)>,
    settings: &StepSettings,
) -> Vec<SettingChange> {
    let all = [of_time(report), of_waiting(waiting), of_padding(report, settings), of_memory(report, settings)];
    all.into_iter().flatten().take(MOST).collect()
}

fn of_time(report: &TrainingReport) -> Option<SettingChange> {
    let lost = report.undone_seconds;
    (LEAST_TIME.max(MUCH_TIME * report.seconds) < lost).then(|| {
        let figure =
            format!("{} steps were done twice, {} of {}", report.undone_steps, time(lost), time(report.seconds));
        SettingChange::new("train.checkpoint_every", "a smaller one loses less when a process dies", figure)
    })
}

fn of_waiting(waiting: Option<(f64, f64)>) -> Option<SettingChange> {
    let (seconds, part) = waiting.filter(|it| LEAST_TIME <= it.0 && MUCH_TIME <= it.1)?;
    let figure = format!("steps waited {} for samples, {} of their time", time(seconds), share(part));
    Some(SettingChange::new("data.workers", "more of them read more samples at once", figure))
}

fn of_padding(report: &TrainingReport, settings: &StepSettings) -> Option<SettingChange> {
    let work = report.work.filter(|it| settings.lacks_edges && MUCH_PADDING <= it.padding)?;
    let figure = format!("{} of the positions were padding", share(work.padding));
    Some(SettingChange::new("batch.n_edges", "more edges pad less", figure))
}

fn of_memory(report: &TrainingReport, settings: &StepSettings) -> Option<SettingChange> {
    let used = report.steady_budget_share?;
    let figure = format!("steps reached {} of the budget", share(used));
    let (setting, change) = match report.limit? {
        Limit::Memory if settings.is_capacity_set => {
            ("memory.capacity", "a larger one, where the device has more, may let steps grow")
        }
        Limit::Length => ("train.steps", "more of them let the sizes settle"),
        _ if WELL_USED <= used => return None,
        Limit::EffectiveBatch => {
            ("batch.effective_batch_size", "a larger one takes more memory, and changes what is learnt")
        }
        Limit::BatchesPerStep => ("batch.batches_per_step", "1 lets a micro-batch hold a whole step"),
        Limit::Bounds => ("batch.batch_max", "a larger one takes more memory for the same step"),
        Limit::Fixed if settings.chosen_by == ChosenBy::BatchSize => {
            ("batch.batch_size", "\"adaptive\" finds how much fits")
        }
        Limit::Fixed => ("policy.kind", "\"certified\" finds how much fits"),
        Limit::StepwiseTarget => ("policy.stepwise_target", "a higher one lets sizes grow"),
        Limit::Adjustments => ("policy.max_adjustments", "more of them let sizes grow"),
        Limit::Memory | Limit::Certainty => return None,
    };
    Some(SettingChange::new(setting, change, figure))
}
