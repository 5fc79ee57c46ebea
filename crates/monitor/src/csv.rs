//! The steps of a run as a table of comma-separated values, for spreadsheets and data frames.

use std::collections::BTreeMap;
use std::fmt::Write;

use plimsoll_types::{Bytes, Event, StepDone, StepShape, SupplyStep, TaskStep};

use crate::Table;
use crate::task::name_of;
use crate::work::rate;

/// A column: its name, whose last word is its unit, and what it holds of a step that had so many failed attempts.
type Column = (&'static str, fn(&StepDone, u32) -> String);

/// The columns of every run, in order; `docs/tools.md` says what each means.
const COLUMNS: [Column; 33] = [
    ("step", |it, _| it.step.to_string()),
    ("epoch", |it, _| it.epoch.to_string()),
    ("committed", |it, _| it.committed.to_string()),
    ("loss", |it, _| number(it.loss)),
    ("gradient_norm", |it, _| number(it.gradient_norm)),
    ("learning_rate", |it, _| number(it.learning_rate)),
    ("patch_size", |it, _| it.rung.patch_size.to_string()),
    ("micro_batch_size", |it, _| it.rung.micro_batch_size.to_string()),
    ("micro_batches", |it, _| it.micro_batches.len().to_string()),
    ("largest_edge", |it, _| optional(it.largest_shape().map(StepShape::extent))),
    ("samples", |it, _| it.n_samples().to_string()),
    ("skipped_samples", |it, _| it.skipped.len().to_string()),
    ("real_positions", |it, _| optional(it.real_positions)),
    ("padded_positions", |it, _| it.padded_positions().to_string()),
    ("oom_attempts", |_, oom_attempts| oom_attempts.to_string()),
    ("seconds", |it, _| number(it.seconds)),
    ("waited_seconds", |it, _| optional(it.waited_seconds)),
    ("samples_per_second", |it, _| optional(rate(it.n_samples(), it.seconds))),
    ("stream_workers", |it, _| supply(it, |it| it.workers)),
    ("stream_waited_seconds", |it, _| supply(it, |it| it.waited_seconds)),
    ("stream_ready_steps", |it, _| supply(it, |it| it.ready_steps)),
    ("stream_buffer_samples", |it, _| supply(it, |it| it.buffered_samples)),
    ("stream_buffer_bytes", |it, _| supply(it, |it| it.buffered_bytes.0)),
    ("stream_buffer_fill", |it, _| supply(it, |it| it.buffer_fill)),
    ("resident_bytes", |it, _| bytes(it.resident)),
    ("in_use_bytes", |it, _| bytes(it.in_use)),
    ("reserved_bytes", |it, _| bytes(it.reserved)),
    ("peak_bytes", |it, _| bytes(it.peak)),
    ("predicted_bytes", |it, _| it.predicted.map(bytes).unwrap_or_default()),
    ("upper_bytes", |it, _| it.upper.map(bytes).unwrap_or_default()),
    ("budget_bytes", |it, _| bytes(it.budget)),
    ("capacity_bytes", |it, _| bytes(it.capacity)),
    (
        "budget_share",
        |it, _| if it.budget == Bytes::ZERO { String::new() } else { number(it.peak.share_of(it.budget)) },
    ),
];

/// A row for each step below a row of names, and for each task its samples, its loss and its weight; what is not known, or not
/// finite, is empty.
///
/// # Sources
///
/// RFC 4180, but that lines end in a newline alone.
#[derive(Debug, Default)]
pub struct StepsCsv {
    /// Names of the tasks, and how many have a column.
    names: Vec<String>,
    n_tasks: Option<usize>,
    failures: BTreeMap<u64, u32>,
}

impl Table for StepsCsv {
    fn hear(&mut self, event: &Event, text: &mut String) {
        match event {
            Event::RunStarted(it) if self.n_tasks.is_none() => self.names.clone_from(&it.tasks),
            Event::StepFailed(it) => *self.failures.entry(it.step).or_default() += 1,
            Event::StepDone(it) => {
                let n_tasks = self.begin(it.tasks.len(), text);
                let n_failed = self.failures.get(&it.step).copied().unwrap_or(0);
                let cells: Vec<_> = COLUMNS.iter().map(|column| column.1(it, n_failed)).collect();
                *text += &cells.join(",");
                (0..n_tasks).for_each(|at| add_task(it.tasks.get(at), text));
                text.push('\n');
            }
            _ => {}
        }
    }

    fn end(&mut self, text: &mut String) {
        self.begin(0, text);
    }
}

impl StepsCsv {
    /// Writes the row of names before the first step, and returns how many tasks have columns.
    fn begin(&mut self, n_seen: usize, text: &mut String) -> usize {
        let Self { names, n_tasks, .. } = self;
        *n_tasks.get_or_insert_with(|| {
            let n = names.len().max(n_seen);
            let of_task =
                |task| ["samples", "loss", "weight"].map(|it| quoted(&format!("{}_{it}", name_of(names, task))));
            let columns = COLUMNS.iter().map(|it| it.0.to_owned()).chain((0..n).flat_map(of_task));
            *text += &(columns.collect::<Vec<_>>().join(",") + "\n");
            n
        })
    }
}

fn add_task(task: Option<&TaskStep>, text: &mut String) {
    match task {
        Some(it) => drop(write!(text, ",{},{},{}", it.samples, optional(it.loss), number(it.weight))),
        None => *text += ",,,",
    }
}

fn supply<T: ToString>(step: &StepDone, value: fn(SupplyStep) -> T) -> String {
    optional(step.supply.map(value))
}

fn bytes(size: Bytes) -> String {
    size.0.to_string()
}

/// Writes a number so that it is read again as the same.
fn number(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { String::new() }
}

fn optional(value: Option<impl ToString>) -> String {
    value.map(|it| it.to_string()).unwrap_or_default()
}

/// Writes a text as one cell.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}
