//! One row per step, one row per epoch.

use std::collections::BTreeMap;

use plimsoll_types::{Bytes, Event, Extent, StepDone, TaskStep, edge_or_edges};
use serde::Serialize;

use crate::run::Run;
use crate::text::json_rows;
use crate::work::Work;

/// Lists the steps as a JSON array, one row per line.
pub fn batch_metrics(events: &[Event]) -> String {
    let run = Run::new(events);
    let failures = failures_by_step(&run);
    let names = run.task_names();
    let row = |it: &StepDone| BatchRow::new(it, &names, failures.get(&it.step).copied().unwrap_or(0));
    let rows: Vec<_> = run.steps().map(row).collect();
    json_rows(&rows)
}

/// Lists the epochs as a JSON array, one row per line; a validation belongs to the epoch of the step before it.
pub fn epoch_metrics(events: &[Event]) -> String {
    let run = Run::new(events);
    let (failures, names) = (failures_by_step(&run), run.task_names());
    let mut rows: Vec<EpochRow<'_>> = Vec::new();
    for event in run.0 {
        match event {
            Event::StepDone(step) => {
                if rows.last().is_none_or(|row| row.epoch != step.epoch) {
                    let tasks = names.iter().map(|task| EpochTask { task, ..EpochTask::default() }).collect();
                    rows.push(EpochRow { epoch: step.epoch, tasks, ..EpochRow::default() });
                }
                rows.last_mut().into_iter().for_each(|row| row.add(step, failures.contains_key(&step.step)));
            }
            Event::Validated(it) => rows.last_mut().into_iter().for_each(|row| {
                row.metric_name = Some(it.metric_name.clone());
                row.metric = Some(it.metric);
                row.tasks.iter_mut().zip(&it.tasks).for_each(|(row, it)| row.metric = Some(it.metric));
            }),
            _ => {}
        }
    }
    json_rows(&rows)
}

/// Counts the attempts that ran out of memory, by step.
pub(crate) fn failures_by_step(run: &Run<'_>) -> BTreeMap<u64, u32> {
    let mut counts = BTreeMap::new();
    run.failures().for_each(|it| *counts.entry(it.step).or_default() += 1);
    counts
}

/// Divides samples by the time that they took, unless no time passed.
pub(crate) fn rate(samples: u64, seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| samples as f64 / seconds)
}

#[derive(Serialize)]
struct BatchRow<'a> {
    step: u64,
    epoch: u64,
    committed: bool,
    loss: f64,
    gradient_norm: f64,
    learning_rate: f64,
    patch_size: u32,
    micro_batch_sizes: Vec<u32>,
    /// Edge of the largest micro-batch, which may be less than the patch size that was asked for.
    edge: Option<Edge>,
    /// Edge of each micro-batch, where they differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    edges: Vec<Edge>,
    resident_bytes: Bytes,
    in_use_bytes: Bytes,
    reserved_bytes: Bytes,
    peak_bytes: Bytes,
    predicted_bytes: Option<Bytes>,
    upper_bytes: Option<Bytes>,
    budget_bytes: Bytes,
    seconds: f64,
    samples_per_second: Option<f64>,
    /// What of the work was real, where samples are padded.
    #[serde(skip_serializing_if = "Option::is_none")]
    work: Option<Work>,
    oom_attempts: u32,
    /// Samples that could not be read.
    skipped: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tasks: Vec<TaskRow<'a>>,
}

impl<'a> BatchRow<'a> {
    fn new(step: &StepDone, tasks: &'a [String], oom_attempts: u32) -> Self {
        Self {
            step: step.step,
            epoch: step.epoch,
            committed: step.committed,
            loss: step.loss,
            gradient_norm: step.gradient_norm,
            learning_rate: step.learning_rate,
            patch_size: step.rung.patch_size,
            micro_batch_sizes: step.micro_batches.iter().map(|it| it.shape().samples).collect(),
            edge: step.largest_shape().map(|it| Edge(it.extent())),
            edges: several_edges(step),
            resident_bytes: step.resident,
            in_use_bytes: step.in_use,
            reserved_bytes: step.reserved,
            peak_bytes: step.peak,
            predicted_bytes: step.predicted,
            upper_bytes: step.upper,
            budget_bytes: step.budget,
            seconds: step.seconds,
            samples_per_second: rate(step.n_samples(), step.seconds),
            work: Work::of(std::iter::once(step)),
            oom_attempts,
            skipped: step.skipped.len(),
            tasks: tasks.iter().zip(&step.tasks).map(|(task, it)| TaskRow { task, step: *it }).collect(),
        }
    }
}

/// One task in one step, with its name.
#[derive(Serialize)]
struct TaskRow<'a> {
    task: &'a str,
    #[serde(flatten)]
    step: TaskStep,
}

/// What samples are padded or cut to: a number along one axis, and a list along several.
#[derive(PartialEq, Serialize)]
#[serde(transparent)]
struct Edge(#[serde(serialize_with = "edge_or_edges::serialize")] Extent);

fn several_edges(step: &StepDone) -> Vec<Edge> {
    let edges: Vec<Edge> = step.micro_batches.iter().map(|it| Edge(it.edges)).collect();
    if edges.iter().all(|it| Some(it) == edges.first()) { Vec::new() } else { edges }
}

/// Sums over the committed steps of an epoch; only the time and what was skipped count the others too.
#[derive(Default, Serialize)]
struct EpochRow<'a> {
    epoch: u64,
    loss: Option<f64>,
    samples: u64,
    steps: u64,
    peak_bytes: Option<Bytes>,
    oom_recoveries: u64,
    /// Samples that could not be read.
    skipped: u64,
    seconds: f64,
    metric_name: Option<String>,
    metric: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tasks: Vec<EpochTask<'a>>,
}

/// One task in an epoch, likewise.
#[derive(Default, Serialize)]
struct EpochTask<'a> {
    task: &'a str,
    samples: u64,
    loss: Option<f64>,
    metric: Option<f64>,
}

/// Adds the mean of some samples to the mean of those before.
fn pool(mean: &mut Option<f64>, samples: u64, (loss, n): (f64, u64)) {
    let (before, now) = (samples as f64, n as f64);
    if before + now > 0.0 {
        *mean = Some((mean.unwrap_or(0.0) * before + loss * now) / (before + now));
    }
}

impl EpochRow<'_> {
    fn add(&mut self, step: &StepDone, failed: bool) {
        self.seconds += step.seconds;
        self.skipped += step.skipped.len() as u64;
        if !step.committed {
            return;
        }
        pool(&mut self.loss, self.samples, (step.loss, step.n_samples()));
        for (row, it) in self.tasks.iter_mut().zip(&step.tasks) {
            if let Some(loss) = it.loss {
                pool(&mut row.loss, row.samples, (loss, it.samples.into()));
            }
            row.samples += u64::from(it.samples);
        }
        self.samples += step.n_samples();
        self.steps += 1;
        self.peak_bytes = self.peak_bytes.max(Some(step.peak));
        self.oom_recoveries += u64::from(failed);
    }
}
