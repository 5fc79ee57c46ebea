//! What the validations and the test say: the best, the last, and whether the model has learnt anything that holds.

use plimsoll_types::{Event, ItemsMeasured, NamedMetric, Validated};
use serde::{Deserialize, Serialize};

use crate::run::Run;
use crate::text::{counted, short};

/// A validation is clearly worse than another when it has lost this part of what that had gained on the baseline.
const CLEARLY: f64 = 0.1;
/// And when it is off by this part of the value itself: less is noise.
const VISIBLY: f64 = 0.01;

/// One validation, or the test, as the report names it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValidationReport {
    /// Steps that its model has done.
    pub step: u64,
    /// The metric.
    #[serde(deserialize_with = "plimsoll_types::null_as_nan")]
    pub metric: f64,
    /// The baseline's metric on the same samples.
    #[serde(deserialize_with = "plimsoll_types::null_as_nan")]
    pub baseline: f64,
    /// What part of the set was measured; all of it where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<ItemsMeasured>,
    /// What else was measured of the same samples.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<NamedMetric>,
    /// The checkpoint of that step inside the run directory, where one was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
}

impl ValidationReport {
    fn new(run: &Run<'_>, it: &Validated) -> Self {
        let Validated { step, metric, baseline, part, .. } = *it;
        Self { step, metric, baseline, part, others: it.others.clone(), checkpoint: run.checkpoint_of(step) }
    }

    /// Writes the value with what it is of.
    pub(crate) fn text(&self, name: &str) -> String {
        let part = self.part.map_or_else(String::new, |it| format!(" on {} of {} items", it.n, it.of));
        let (value, baseline) = (short(self.metric), short(self.baseline));
        let others = self
            .others
            .iter()
            .map(|it| format!("; {} {}, baseline {}", it.metric_name, short(it.metric), short(it.baseline)));
        let others: String = others.collect();
        format!("{name} {value} at step {}{part}, baseline {baseline} on the same samples{others}", self.step)
    }
}

/// Returns the validations of one part of the set that are the run's series: all but a second one of the same step, which
/// measures the whole set once more at the end.
fn series<'a>(run: &Run<'a>) -> Vec<&'a Validated> {
    let mut series: Vec<&Validated> = Vec::new();
    for it in run.validations() {
        if series.last().is_none_or(|last| last.step != it.step || last.part == it.part) {
            series.push(it);
        }
    }
    series
}

/// Returns the best validation of those that measured what the last of the series did; of equal ones the first.
///
/// None where the log does not say which values are good.
fn best<'a>(run: &Run<'a>) -> Option<&'a Validated> {
    let series = series(run);
    let (last, goal) = (series.last()?, series.last()?.goal?);
    let alike = series.iter().filter(|it| it.part == last.part && it.metric.is_finite());
    alike.copied().reduce(|best, it| if goal.prefers(it.metric, best.metric) { it } else { best })
}

pub(crate) fn best_validation(run: &Run<'_>) -> Option<ValidationReport> {
    best(run).map(|it| ValidationReport::new(run, it))
}

pub(crate) fn last_validation(run: &Run<'_>) -> Option<ValidationReport> {
    run.validations().last().map(|it| ValidationReport::new(run, it))
}

pub(crate) fn test(run: &Run<'_>) -> Option<ValidationReport> {
    run.test().map(|it| ValidationReport::new(run, it))
}

/// Says what the validations warn of, one sentence each.
pub(crate) fn findings(run: &Run<'_>) -> Vec<String> {
    let series = series(run);
    let (Some(last), Some(whole)) = (series.last(), run.validations().last()) else { return Vec::new() };
    let mut findings = Vec::new();
    findings.extend(has_failed(run, last).or_else(|| has_overfitted(run, last)));
    // A model that no step has trained has nothing to have learnt.
    findings.extend(has_learnt_nothing(run, last).filter(|_| 0 < last.step));
    let n_done = run.steps().last().map_or(0, |it| it.step + 1);
    if whole.step < n_done {
        let are = if n_done == 1 { "is" } else { "are" };
        findings.push(format!(
            "The last validation is of step {}, and {} {are} done.",
            whole.step,
            counted(n_done, "step")
        ));
    }
    if let Some(ItemsMeasured { n, of }) = whole.part {
        findings.push(format!(
            "The model was validated on {n} of the {of} items that are held out, always the same; \
             `train.validation_share = 1.0` takes all of them."
        ));
    }
    findings
}

fn has_failed(run: &Run<'_>, last: &Validated) -> Option<String> {
    let best = best(run).filter(|it| it.step < last.step && !last.metric.is_finite())?;
    let name = &last.metric_name;
    Some(format!(
        "The model of the last validation is lost: {name} {} at step {}, {} at step {}; a lower `train.learning_rate` may help.",
        short(last.metric),
        last.step,
        short(best.metric),
        best.step
    ))
}

/// The last validation is clearly worse than the best.
fn has_overfitted(run: &Run<'_>, last: &Validated) -> Option<String> {
    let best = best(run).filter(|it| it.step < last.step)?;
    let loss = (last.metric - best.metric).abs();
    let gained = (best.metric - best.baseline).abs();
    if loss <= CLEARLY * gained || loss <= VISIBLY * best.metric.abs() {
        return None;
    }
    let (name, checkpoint) = (&last.metric_name, run.checkpoint_of(best.step));
    let kept = checkpoint.map_or_else(String::new, |it| format!("; `{it}` holds the better one"));
    let what = format!(
        "{name} was {} at step {}, and is {} at step {}",
        short(best.metric),
        best.step,
        short(last.metric),
        last.step
    );
    let (then, now) = (loss_before(run, best.step), loss_before(run, last.step));
    Some(match (then, now) {
        (Some(then), Some(now)) if now < then => format!(
            "Overfitting: {what}, while the training loss fell from {} to {}{kept}. Fewer steps or more data would help.",
            short(then),
            short(now)
        ),
        _ => format!("The model got worse: {what}{kept}."),
    })
}

/// Not even the best validation is better than the baseline.
fn has_learnt_nothing(run: &Run<'_>, last: &Validated) -> Option<String> {
    let (goal, best) = (last.goal?, best(run).unwrap_or(last));
    if goal.prefers(best.metric, best.baseline) {
        let is_below = goal.prefers(last.baseline, last.metric);
        return is_below.then(|| {
            let (name, value, baseline) = (&last.metric_name, short(last.metric), short(last.baseline));
            format!(
                "On what was held out the last model is worse than the baseline: {name} {value}, baseline {baseline}."
            )
        });
    }
    let (name, value, baseline) = (&best.metric_name, short(best.metric), short(best.baseline));
    Some(format!(
        "On what was held out the model is no better than the baseline, not even at its best: {name} {value} at step {}, \
         baseline {baseline}.",
        best.step
    ))
}

/// Steps over which a training loss is averaged.
const AVERAGED: usize = 32;

/// Returns the mean training loss of the steps before one.
pub(crate) fn loss_before(run: &Run<'_>, step: u64) -> Option<f64> {
    let losses: Vec<f64> = run.steps().filter(|it| it.step < step && it.loss.is_finite()).map(|it| it.loss).collect();
    let of_late = &losses[losses.len().saturating_sub(AVERAGED)..];
    (!of_late.is_empty()).then(|| of_late.iter().sum::<f64>() / of_late.len() as f64)
}

impl Run<'_> {
    /// Returns the checkpoint of a step, where one was written.
    pub(crate) fn checkpoint_of(&self, step: u64) -> Option<String> {
        let of_step = |event: &Event| match event {
            Event::CheckpointSaved(it) if it.step == step => Some(it.path.clone()),
            _ => None,
        };
        self.0.iter().rev().find_map(of_step)
    }

    /// Returns the checkpoint that was written last.
    pub(crate) fn last_checkpoint(&self) -> Option<String> {
        let path = |event: &Event| if let Event::CheckpointSaved(it) = event { Some(it.path.clone()) } else { None };
        self.0.iter().rev().find_map(path)
    }
}
