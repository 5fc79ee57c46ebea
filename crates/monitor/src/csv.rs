//! The steps of a run as a table of comma-separated values, for spreadsheets and data frames.

use std::fmt::Write;

use plimsoll_types::{Bytes, Event, StepDone, StepShape};

use crate::metrics::{failures_by_step, rate};
use crate::run::Run;

/// A column: its name, whose last word is its unit, and what it holds of a step that had so many failed attempts.
type Column = (&'static str, fn(&StepDone, u32) -> String);

/// The columns of every run, in order; `docs/tools.md` says what each means.
const COLUMNS: [Column; 27] = [
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

/// Writes a row for each step below a row of names, and for each task its samples, its loss and its weight; what is not
/// known, or not finite, is empty.
///
/// # Sources
///
/// RFC 4180, but that lines end in a newline alone.
pub fn steps_csv(events: &[Event]) -> String {
    let run = Run::new(events);
    let (failures, tasks) = (failures_by_step(&run), run.task_names());
    let of_tasks =
        tasks.iter().flat_map(|it| ["samples", "loss", "weight"].map(|what| quoted(&format!("{it}_{what}"))));
    let names: Vec<_> = COLUMNS.iter().map(|it| it.0.to_owned()).chain(of_tasks).collect();
    let mut table = names.join(",") + "\n";
    for step in run.steps() {
        let n_failed = failures.get(&step.step).copied().unwrap_or(0);
        let cells: Vec<_> = COLUMNS.iter().map(|it| it.1(step, n_failed)).collect();
        table += &cells.join(",");
        for at in 0..tasks.len() {
            match step.tasks.get(at) {
                Some(it) => drop(write!(table, ",{},{},{}", it.samples, optional(it.loss), number(it.weight))),
                None => table += ",,,",
            }
        }
        table.push('\n');
    }
    table
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
