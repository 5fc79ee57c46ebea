//! One row per step, one row per epoch.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_types::{Bytes, Event, Extent, RunStarted, StepDone, SupplyStep, TaskStep, Validated, edge_or_edges};
use serde::Serialize;

use crate::Table;
use crate::rows::JsonRows;
use crate::task::name_of;
use crate::work::{Work, rate};

/// The steps as a JSON array, one row per line.
#[derive(Debug, Default)]
pub struct BatchMetrics {
    names: Vec<String>,
    /// Attempts that ran out of memory, by step.
    failures: BTreeMap<u64, u32>,
    rows: JsonRows,
}

/// The epochs as a JSON array, one row per line; a validation belongs to the epoch of the step before it.
#[derive(Debug, Default)]
pub struct EpochMetrics {
    names: Vec<String>,
    failed: BTreeSet<u64>,
    epoch: Option<EpochRow>,
    rows: JsonRows,
}

impl Table for BatchMetrics {
    fn hear(&mut self, event: &Event, text: &mut String) {
        match event {
            Event::RunStarted(it) => name(&mut self.names, it),
            Event::StepFailed(it) => *self.failures.entry(it.step).or_default() += 1,
            Event::StepDone(it) => {
                let oom_attempts = self.failures.get(&it.step).copied().unwrap_or(0);
                self.rows.add(&BatchRow::new(it, &self.names, oom_attempts), text);
            }
            _ => {}
        }
    }

    fn end(&mut self, text: &mut String) {
        self.rows.end(text);
    }
}

impl Table for EpochMetrics {
    fn hear(&mut self, event: &Event, text: &mut String) {
        match event {
            Event::RunStarted(it) => name(&mut self.names, it),
            Event::StepFailed(it) => drop(self.failed.insert(it.step)),
            Event::StepDone(it) => {
                if self.epoch.as_ref().is_none_or(|row| row.epoch != it.epoch) {
                    self.write_epoch(text);
                    self.epoch = Some(EpochRow { epoch: it.epoch, ..EpochRow::default() });
                }
                let failed = self.failed.contains(&it.step);
                self.epoch.iter_mut().for_each(|row| row.add(it, &self.names, failed));
            }
            Event::EpochDone(it) => {
                self.epoch.iter_mut().filter(|row| row.epoch == it.epoch).for_each(|row| row.dropped = it.dropped);
            }
            Event::Validated(it) => self.epoch.iter_mut().for_each(|row| row.validate(it, &self.names)),
            _ => {}
        }
    }

    fn end(&mut self, text: &mut String) {
        self.write_epoch(text);
        self.rows.end(text);
    }
}

impl EpochMetrics {
    fn write_epoch(&mut self, text: &mut String) {
        if let Some(row) = self.epoch.take() {
            self.rows.add(&row, text);
        }
    }
}

/// Takes the names of the tasks from the first head of a log.
fn name(names: &mut Vec<String>, start: &RunStarted) {
    if names.is_empty() {
        names.clone_from(&start.tasks);
    }
}

#[derive(Serialize)]
struct BatchRow {
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
    /// How far ahead samples were read, where they are streamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    supply: Option<SupplyStep>,
    oom_attempts: u32,
    /// Samples that could not be read.
    skipped: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tasks: Vec<TaskRow>,
}

impl BatchRow {
    fn new(step: &StepDone, names: &[String], oom_attempts: u32) -> Self {
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
            work: Work::of(step),
            supply: step.supply,
            oom_attempts,
            skipped: step.skipped.len(),
            tasks: step
                .tasks
                .iter()
                .enumerate()
                .map(|(n, it)| TaskRow { task: name_of(names, n), step: *it })
                .collect(),
        }
    }
}

/// One task in one step, with its name.
#[derive(Serialize)]
struct TaskRow {
    task: String,
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
#[derive(Debug, Default, Serialize)]
struct EpochRow {
    epoch: u64,
    loss: Option<f64>,
    samples: u64,
    steps: u64,
    peak_bytes: Option<Bytes>,
    oom_recoveries: u64,
    /// Samples that could not be read.
    skipped: u64,
    /// Samples at its end that made no whole step, and came in none.
    #[serde(skip_serializing_if = "plimsoll_types::is_zero")]
    dropped: u64,
    seconds: f64,
    metric_name: Option<String>,
    metric: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tasks: Vec<EpochTask>,
}

/// One task in an epoch, likewise.
#[derive(Debug, Default, Serialize)]
struct EpochTask {
    task: String,
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

impl EpochRow {
    /// Makes room for so many tasks, and at least those that have a name.
    fn see(&mut self, names: &[String], n: usize) {
        for at in self.tasks.len()..n.max(names.len()) {
            self.tasks.push(EpochTask { task: name_of(names, at), ..EpochTask::default() });
        }
    }

    fn validate(&mut self, it: &Validated, names: &[String]) {
        self.see(names, it.tasks.len());
        self.metric_name = Some(it.metric_name.clone());
        self.metric = Some(it.metric);
        self.tasks.iter_mut().zip(&it.tasks).for_each(|(row, it)| row.metric = Some(it.metric));
    }

    fn add(&mut self, step: &StepDone, names: &[String], failed: bool) {
        self.see(names, step.tasks.len());
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
