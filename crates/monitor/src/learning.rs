//! What the validations and the test say: the best, the last, and whether the model has learnt anything that holds.

use std::collections::VecDeque;

use plimsoll_types::{CheckpointSaved, ItemsMeasured, NamedMetric, StepDone, Validated};
use serde::{Deserialize, Serialize};

use crate::series::Series;
use crate::text::short;

/// Steps over which a training loss is averaged.
const AVERAGED: usize = 32;

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

/// The validations that count, the test and the last losses.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Learning {
    /// Finite training losses of the last steps.
    losses: VecDeque<(u64, f64)>,
    /// The last validation, and the last of the run's series: of all but a second one of the same step, which measures the
    /// whole set once more at the end.
    last: Option<Judged>,
    pub(crate) last_of_series: Option<Judged>,
    /// The best of the series, for each part of the set that was measured.
    best: Vec<Judged>,
    test: Option<Judged>,
    /// The checkpoint that was written last.
    saved: Option<CheckpointSaved>,
    pub(crate) metric: Series,
    pub(crate) baseline: Series,
    pub(crate) peak: Series,
}

/// A validation, with what was known of its model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Judged {
    pub(crate) validated: Validated,
    pub(crate) checkpoint: Option<String>,
    /// Mean training loss of the steps before it.
    pub(crate) loss: Option<f64>,
}

impl Learning {
    pub(crate) fn step(&mut self, step: &StepDone) {
        if !step.loss.is_finite() {
            return;
        }
        if self.losses.len() == AVERAGED {
            self.losses.pop_front();
        }
        self.losses.push_back((step.step, step.loss));
    }

    pub(crate) fn validate(&mut self, it: &Validated) {
        self.metric.push(it.step, it.metric);
        self.baseline.push(it.step, it.baseline);
        self.peak.push(it.step, it.peak.as_f64());
        let judged = self.judged(it);
        self.last = Some(judged.clone());
        let before = self.last_of_series.as_ref().map(|it| &it.validated);
        if before.is_some_and(|last| last.step == it.step && last.part != it.part) {
            return;
        }
        if let Some(goal) = it.goal.filter(|_| it.metric.is_finite()) {
            match self.best.iter_mut().find(|best| best.validated.part == it.part) {
                Some(best) if goal.prefers(it.metric, best.validated.metric) => *best = judged.clone(),
                Some(_) => {}
                None => self.best.push(judged.clone()),
            }
        }
        self.last_of_series = Some(judged);
    }

    pub(crate) fn test(&mut self, it: &Validated) {
        self.test = Some(self.judged(it));
    }

    /// Takes in a checkpoint, which belongs to the validations of its step.
    pub(crate) fn save(&mut self, saved: &CheckpointSaved) {
        let of_step = |it: &&mut Judged| it.validated.step == saved.step;
        let all = self.best.iter_mut().chain(&mut self.last).chain(&mut self.last_of_series).chain(&mut self.test);
        all.filter(of_step).for_each(|it| it.checkpoint = Some(saved.path.clone()));
        self.saved = Some(saved.clone());
    }

    fn judged(&self, it: &Validated) -> Judged {
        let saved = self.saved.iter().filter(|saved| saved.step == it.step).map(|it| it.path.clone());
        let of_best = self.best.iter().filter(|best| best.validated.step == it.step);
        let checkpoint = saved.chain(of_best.filter_map(|it| it.checkpoint.clone())).next();
        Judged { validated: it.clone(), checkpoint, loss: self.loss_before(it.step) }
    }

    /// Returns the mean training loss of the last steps before one.
    pub(crate) fn loss_before(&self, step: u64) -> Option<f64> {
        let losses = || self.losses.iter().filter(|it| it.0 < step).map(|it| it.1);
        (0 < losses().count()).then(|| losses().sum::<f64>() / losses().count() as f64)
    }

    pub(crate) fn last(&self) -> Option<&Validated> {
        self.last.as_ref().map(|it| &it.validated)
    }

    /// Returns the best validation of those that measured what the last of the series did; of equal ones the first.
    ///
    /// None where the log does not say which values are good.
    pub(crate) fn best(&self) -> Option<&Judged> {
        let last = &self.last_of_series.as_ref()?.validated;
        last.goal.and_then(|_| self.best.iter().find(|it| it.validated.part == last.part))
    }

    pub(crate) fn best_validation(&self) -> Option<ValidationReport> {
        self.best().map(Judged::report)
    }

    pub(crate) fn last_validation(&self) -> Option<ValidationReport> {
        self.last.as_ref().map(Judged::report)
    }

    pub(crate) fn tested(&self) -> Option<ValidationReport> {
        self.test.as_ref().map(Judged::report)
    }

    /// Returns the checkpoint that was written last.
    pub(crate) fn last_checkpoint(&self) -> Option<String> {
        self.saved.as_ref().map(|it| it.path.clone())
    }
}

impl Judged {
    fn report(&self) -> ValidationReport {
        let Validated { step, metric, baseline, part, .. } = self.validated;
        let (others, checkpoint) = (self.validated.others.clone(), self.checkpoint.clone());
        ValidationReport { step, metric, baseline, part, others, checkpoint }
    }
}
