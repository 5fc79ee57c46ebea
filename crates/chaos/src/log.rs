//! What a run's log says.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use plimsoll_monitor::decode;
use plimsoll_types::{EndReason, Event, StepDone};
use serde_json::Value;

use crate::Failed;

/// Fields that a clock or a reading of memory decides.
const READINGS: [&str; 9] =
    ["seconds", "resident", "in_use", "reserved", "peak", "capacity", "budget", "predicted", "upper"];

/// A log.
#[derive(Clone, Debug)]
pub(crate) struct RunLog {
    pub(crate) events: Vec<Event>,
    /// The lines without clock and memory.
    lines: Vec<Value>,
}

impl RunLog {
    pub(crate) fn of_run(run: &Path) -> Result<Self, Failed> {
        let path = run.join("events.jsonl");
        let text = fs::read_to_string(&path).map_err(|error| format!("read {}: {error}", path.display()))?;
        let log = decode(&text)?;
        if log.truncated {
            return Err(format!("read {}: its last line is cut short", path.display()).into());
        }
        let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
        Ok(Self { events: log.events, lines: lines?.into_iter().map(without_readings).collect() })
    }

    pub(crate) fn steps(&self) -> impl Iterator<Item = &StepDone> {
        self.events.iter().filter_map(|it| match it {
            Event::StepDone(done) => Some(done),
            _ => None,
        })
    }

    /// Returns the first line that is not what it is in the other log, from 1.
    pub(crate) fn first_difference(&self, other: &Self) -> Option<String> {
        let n = self.lines.len().max(other.lines.len());
        let at = (0..n).find(|at| self.lines.get(*at) != other.lines.get(*at))?;
        let shown = |lines: &[Value]| lines.get(at).map_or("nothing".to_owned(), |it| shortened(&it.to_string()));
        Some(format!("line {} is {}, not {}", at + 1, shown(&self.lines), shown(&other.lines)))
    }

    fn is_complete(&self) -> bool {
        matches!(self.events.last(), Some(Event::RunEnded(ended)) if ended.reason == EndReason::Completed)
    }
}

/// What became of the samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Audit {
    pub(crate) lost: u64,
    pub(crate) repeated: u64,
    pub(crate) problems: Vec<String>,
}

/// Holds the samples of a log against those of the undisturbed run.
pub(crate) fn audit(log: &RunLog, undisturbed: &RunLog) -> Audit {
    let mut audit = Audit::default();
    if !log.is_complete() {
        audit.problems.push("the log does not end with a completed run".to_owned());
    }
    let (taken, wanted) = (samples(log), samples(undisturbed));
    for key in taken.keys().chain(wanted.keys().filter(|it| !taken.contains_key(*it))) {
        let count = |of: &BTreeMap<(u64, u64), u64>| of.get(key).copied().unwrap_or(0);
        audit.lost += count(&wanted).saturating_sub(count(&taken));
        audit.repeated += count(&taken).saturating_sub(count(&wanted));
    }
    let numbers = log.steps().map(|it| it.step);
    if !numbers.eq(undisturbed.steps().map(|it| it.step)) {
        audit.problems.push("the steps are not numbered one after another".to_owned());
    }
    let sizes = |log: &RunLog| log.steps().map(StepDone::n_samples).collect::<Vec<_>>();
    if sizes(log) != sizes(undisturbed) {
        audit.problems.push("the effective batch varies".to_owned());
    }
    if log.steps().any(|it| !(it.loss.is_finite() && it.gradient_norm.is_finite())) {
        audit.problems.push("a loss or a gradient is not finite".to_owned());
    }
    audit
}

/// Counts each sample of each epoch.
fn samples(log: &RunLog) -> BTreeMap<(u64, u64), u64> {
    let mut counts = BTreeMap::new();
    for done in log.steps().filter(|it| it.committed) {
        for id in done.micro_batches.iter().flat_map(|it| &it.ids) {
            *counts.entry((done.epoch, *id)).or_default() += 1;
        }
    }
    counts
}

fn without_readings(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(name, _)| !READINGS.contains(&name.as_str()));
            Value::Object(kept.map(|(name, it)| (name, without_readings(it))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_readings).collect()),
        other => other,
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(160).collect()
}

/// Returns how many steps each process that worked on a run has undone.
pub(crate) fn undone_steps(run: &Path) -> Result<Vec<u64>, Failed> {
    let text = fs::read_to_string(run.join("processes.jsonl"))?;
    let undone = |line: &str| -> Result<u64, Failed> {
        let process: Value = serde_json::from_str(line)?;
        Ok(process["undone_steps"].as_u64().ok_or("a process does not say what it has undone")?)
    };
    text.lines().map(undone).collect()
}
