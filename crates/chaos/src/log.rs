//! What a run's log says.

use std::fs;
use std::path::Path;

use plimsoll_monitor::decode;
use plimsoll_types::{EndReason, Event, StepDone};
use serde_json::Value;

use crate::Failed;

/// Fields that a clock or a reading of memory decides.
const READINGS: [&str; 11] = [
    "seconds",
    "waited_seconds",
    "supply",
    "resident",
    "in_use",
    "reserved",
    "peak",
    "capacity",
    "budget",
    "predicted",
    "upper",
];

/// A log, with those of the other ranks.
#[derive(Clone, Debug)]
pub(crate) struct RunLog {
    pub(crate) events: Vec<Event>,
    /// What the other ranks have logged.
    others: Vec<Vec<Event>>,
    /// The lines without clock and memory.
    lines: Vec<Value>,
}

impl RunLog {
    pub(crate) fn of_run(run: &Path) -> Result<Self, Failed> {
        let (events, text) = read(run)?;
        let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
        let ranks = (1..).map(|rank| run.join(format!("ranks/{rank}"))).take_while(|it| it.is_dir());
        let others: Result<_, Failed> = ranks.map(|it| Ok(read(&it)?.0)).collect();
        Ok(Self { events, others: others?, lines: lines?.into_iter().map(without_readings).collect() })
    }

    /// Returns the steps of the first rank, which are those of the run.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &StepDone> {
        steps(&self.events)
    }

    /// Returns what each rank has done of each step.
    pub(crate) fn shares(&self) -> impl Iterator<Item = &StepDone> {
        self.steps().chain(self.others.iter().flat_map(|it| steps(it)))
    }

    /// Returns the first line that is not what it is in the other log, from 1.
    pub(crate) fn first_difference(&self, other: &Self) -> Option<String> {
        let n = self.lines.len().max(other.lines.len());
        let at = (0..n).find(|at| self.lines.get(*at) != other.lines.get(*at))?;
        let shown = |lines: &[Value]| lines.get(at).map_or("nothing".to_owned(), |it| shortened(&it.to_string()));
        Some(format!("line {} is {}, not {}", at + 1, shown(&self.lines), shown(&other.lines)))
    }

    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.events.last(), Some(Event::RunEnded(ended)) if ended.reason == EndReason::Completed)
    }
}

fn steps(events: &[Event]) -> impl Iterator<Item = &StepDone> {
    events.iter().filter_map(|it| match it {
        Event::StepDone(done) => Some(done),
        _ => None,
    })
}

/// Reads the log of a rank, and its text.
fn read(rank: &Path) -> Result<(Vec<Event>, String), Failed> {
    let path = rank.join("events.jsonl");
    let text = fs::read_to_string(&path).map_err(|error| format!("read {}: {error}", path.display()))?;
    let log = decode(&text)?;
    if log.truncated {
        return Err(format!("read {}: its last line is cut short", path.display()).into());
    }
    Ok((log.events, text))
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
