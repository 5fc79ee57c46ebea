//! The figures that are compared.

use plimsoll_types::{Bytes, EndReason};
use serde::Serialize;

use super::ComparedRun;
use crate::text::{share, short, time, unit_of_length};

/// Where a figure can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Among any runs.
    Any,
    /// Among runs of one job.
    Job,
    /// Among runs whose lengths count the same.
    Unit,
    /// Among runs whose validations measure the same.
    Metric,
}

/// A figure of a run; in JSON a number, a text or `null`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Value {
    Unknown,
    Text(String),
    Count(u64),
    Number(f64),
    PerSecond(f64),
    Seconds(f64),
    Share(f64),
    Size(Bytes),
}

/// Something that is compared.
pub(super) struct Figure {
    /// What JSON calls it, with its unit.
    pub(super) key: &'static str,
    name: &'static str,
    pub(super) scope: Scope,
    pub(super) value: fn(&ComparedRun) -> Value,
}

const fn figure(scope: Scope, key: &'static str, name: &'static str, value: fn(&ComparedRun) -> Value) -> Figure {
    Figure { key, name, scope, value }
}

/// All of them, in the order in which they are shown.
pub(super) const FIGURES: [Figure; 26] = [
    figure(Scope::Any, "job", "job", |it| text(it.report.job.as_deref())),
    figure(Scope::Any, "device", "device", |it| text(it.report.device.as_deref())),
    figure(Scope::Any, "end", "end", |it| text(Some(end(it.report.end)))),
    figure(Scope::Any, "steps", "steps", |it| Value::Count(it.report.steps)),
    figure(Scope::Any, "samples", "samples seen", |it| Value::Count(it.report.samples_seen)),
    figure(Scope::Any, "seconds", "time", |it| Value::Seconds(it.report.seconds)),
    figure(Scope::Job, "samples_per_second", "samples per second", |it| {
        it.report.samples_per_second.map_or(Value::Unknown, Value::PerSecond)
    }),
    figure(Scope::Unit, "real_positions_per_second", "real UNIT per second", |it| {
        it.report.work.and_then(|it| it.real_positions_per_second).map_or(Value::Unknown, Value::PerSecond)
    }),
    figure(Scope::Any, "padding_share", "padding", |it| fraction(it.report.work.map(|it| it.padding))),
    figure(Scope::Any, "planned_padding_share", "planned padding", |it| fraction(it.report.planned_padding)),
    figure(Scope::Any, "budget_bytes", "budget", |it| size(it.report.budget_bytes)),
    figure(Scope::Any, "peak_bytes", "peak", |it| size(it.report.peak_bytes)),
    figure(Scope::Any, "peak_budget_share", "peak of the budget", |it| {
        fraction(it.report.peak_bytes.zip(it.report.budget_bytes).map(|(peak, budget)| peak.share_of(budget)))
    }),
    figure(Scope::Any, "steady_budget_share", "steady state, of the budget", |it| {
        fraction(it.report.steady_budget_share)
    }),
    figure(Scope::Any, "adjustments", "adjustments", |it| Value::Count(it.report.adjustments)),
    figure(Scope::Any, "oom_recoveries", "out-of-memory recoveries", |it| Value::Count(it.report.oom_recoveries)),
    figure(Scope::Any, "steps_given_up", "steps given up", |it| Value::Count(it.report.steps_given_up)),
    figure(Scope::Any, "bounds_exceeded", "peaks above their bound", |it| Value::Count(it.report.bounds_exceeded)),
    figure(Scope::Any, "deaths", "deaths", |it| Value::Count(it.report.restarts.len() as u64)),
    figure(Scope::Any, "undone_seconds", "work done again", |it| Value::Seconds(it.report.undone_seconds)),
    figure(Scope::Any, "waiting_seconds", "waiting for samples", |it| {
        it.report.waiting_seconds.map_or(Value::Unknown, Value::Seconds)
    }),
    figure(Scope::Any, "overhead_us_per_step", "overhead per step in µs", |it| number(it.report.overhead_us_per_step)),
    figure(Scope::Job, "training_loss", "training loss, last 32 steps", |it| number(it.loss())),
    figure(Scope::Metric, "last_validation", "last validation: METRIC", |it| number(it.report.metric)),
    figure(Scope::Metric, "best_validation", "best validation: METRIC", |it| {
        number(it.report.best_validation.as_ref().map(|it| it.metric))
    }),
    figure(Scope::Metric, "baseline", "baseline", |it| number(it.report.baseline)),
];

impl Figure {
    /// Returns what people call it, with the unit or the metric of the runs.
    pub(super) fn name(&self, runs: &[ComparedRun]) -> String {
        let unit = runs.iter().map(|it| it.report.unit_of_length.as_str()).find(|it| !it.is_empty());
        let metric = runs.iter().find_map(|it| it.report.metric_name.as_deref());
        let name = self.name.replace("UNIT", unit_of_length(unit.unwrap_or_default()));
        name.replace("METRIC", metric.unwrap_or("none"))
    }
}

impl Value {
    /// Writes it, with its ratio to that of the first run where that says something.
    pub(super) fn beside(&self, first: Option<&Self>) -> String {
        let ratio =
            first.and_then(|it| self.measured()?.checked_ratio(it.measured()?)).map(|it| format!(" (×{it:.2})"));
        self.to_string() + &ratio.unwrap_or_default()
    }

    /// Returns what is measured, and compares as a ratio.
    fn measured(&self) -> Option<Measured> {
        match self {
            Self::PerSecond(it) => Some(Measured(*it)),
            Self::Seconds(it) => (SHORTEST <= *it).then_some(Measured(*it)),
            Self::Size(it) => Some(Measured(it.as_f64())),
            _ => None,
        }
    }
}

/// Seconds below which a time is noise, and its ratio to another says nothing.
const SHORTEST: f64 = 1.0;

/// A measured quantity, of which nothing is zero.
#[derive(Clone, Copy)]
struct Measured(f64);

impl Measured {
    fn checked_ratio(self, to: Self) -> Option<f64> {
        (0.0 < to.0 && self.0.is_finite()).then(|| self.0 / to.0)
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown => f.write_str("–"),
            Self::Text(it) => f.write_str(it),
            Self::Count(it) => write!(f, "{it}"),
            Self::Number(it) | Self::PerSecond(it) => f.write_str(&short(*it)),
            Self::Seconds(it) => f.write_str(&time(*it)),
            Self::Share(it) => f.write_str(&share(*it)),
            Self::Size(it) => write!(f, "{it}"),
        }
    }
}

fn text(it: Option<&str>) -> Value {
    it.map_or(Value::Unknown, |it| Value::Text(it.to_owned()))
}

fn number(it: Option<f64>) -> Value {
    it.map_or(Value::Unknown, Value::Number)
}

fn fraction(it: Option<f64>) -> Value {
    it.filter(|it| it.is_finite()).map_or(Value::Unknown, Value::Share)
}

fn size(it: Option<Bytes>) -> Value {
    it.map_or(Value::Unknown, Value::Size)
}

const fn end(it: Option<EndReason>) -> &'static str {
    match it {
        Some(EndReason::Completed) => "completed",
        Some(EndReason::StoppedEarly) => "ended early",
        Some(EndReason::Interrupted) => "interrupted",
        None => "had not ended",
    }
}
