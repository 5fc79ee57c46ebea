//! Everything that can end a run early.

use plimsoll_guard::GuardError;
use plimsoll_predict::PredictError;
use plimsoll_probe::ProbeError;
use plimsoll_step::StepError;
use plimsoll_types::{Bytes, Extent};

use crate::balance::BalanceError;
use crate::checkpoint::CheckpointError;
use crate::controller::ControllerError;
use crate::loader::LoaderError;
use crate::resume::Change;
use crate::run_dir::RunDirError;

/// A sample that does not fit, as its source speaks of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Its name: [`Source::describe`](crate::Source::describe).
    pub name: String,
    /// What would make it smaller: [`Source::smaller`](crate::Source::smaller).
    pub smaller: &'static str,
    /// What its length counts: [`Job::unit_of_length`](crate::Job::unit_of_length).
    pub unit: &'static str,
}

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The run directory.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// A checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Memory cannot be measured.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The data.
    #[error(transparent)]
    Loader(#[from] LoaderError),
    /// The job's shapes are not those that loaders and planners make.
    #[error(
        "train `{job}`: its features are over {n_axes} axes, and samples are cut or padded along {of_cells}; name features \
         of as many"
    )]
    Axes {
        /// The job.
        job: &'static str,
        /// The axes of its features.
        n_axes: usize,
        /// Those of what samples are cut or padded to.
        of_cells: usize,
    },
    /// A run that goes on was asked for fewer steps than it has done.
    #[error("resume: `train.steps` is {asked}, and {done} steps are done; ask for {done} or more, or start a new run")]
    FewerSteps {
        /// The steps that it is to have in the end.
        asked: u64,
        /// Those of its last checkpoint.
        done: u64,
    },
    /// Ranks were not told the same.
    #[error("train on {n_ranks} ranks: `{}` is {} on rank {rank}, and {} on rank 0: all ranks run one program with one \
             configuration on the same data", change.key, change.now, change.was)]
    OtherRanks {
        /// How many there are.
        n_ranks: u32,
        /// This one.
        rank: u32,
        /// What it was told otherwise.
        change: Box<Change>,
    },
    /// Another rank was not told the same, and says what.
    #[error("train with rank {rank}: it was told otherwise than rank 0, as it says")]
    RefusedRank {
        /// The first such rank.
        rank: u32,
    },
    /// Predictor or policy refuse their configuration.
    #[error(transparent)]
    Controller(#[from] ControllerError),
    /// The tasks cannot be balanced as they are asked to be.
    #[error(transparent)]
    Balance(#[from] BalanceError),
    /// A reading makes no sense.
    #[error(transparent)]
    Predict(#[from] PredictError),
    /// A step failed.
    #[error("take step {step}: {source}")]
    Step {
        /// The step.
        step: u64,
        /// Why.
        source: StepError,
    },
    /// One sample alone does not fit, whatever was tried.
    #[error(
        "take step {step}: {source}: {} at {extent} {}{}; a capacity{}, {}{} would help{}",
        sample.name, sample.unit, largest(*.largest_allocation), enough(source), sample.smaller, others(*.is_checkpointing),
        skip(*.may_skip)
    )]
    NeverFits {
        /// The step.
        step: u64,
        /// The numbers: [`StepError::NeverFits`].
        source: StepError,
        /// The sample.
        sample: Box<Misfit>,
        /// Whether it could be left out instead.
        may_skip: bool,
        /// What it was cut or padded to.
        extent: Extent,
        /// The largest single allocation of the last attempt, where it is known.
        largest_allocation: Option<Bytes>,
        /// Whether activations were recomputed already.
        is_checkpointing: bool,
    },
    /// The optimizer's step needed more than there is.
    #[error(
        "take step {step}: the optimizer's step ran out of memory twice{}, capacity {capacity}; \
         a smaller model or a larger capacity would help", reached(*.peak)
    )]
    OptimizerNeverFits {
        /// The step.
        step: u64,
        /// High-water mark of the optimizer's step, where the device could say.
        peak: Option<Bytes>,
        /// What there is.
        capacity: Bytes,
    },
    /// A validation failed.
    #[error("validate after {step} steps: {source}{}", validation_advice(source, item.as_deref()))]
    Validation {
        /// Steps done before it.
        step: u64,
        /// Why.
        source: StepError,
        /// What alone does not fit.
        item: Option<Box<str>>,
    },
    /// What is resident before the first step leaves no room.
    #[error(
        "start: {resident} are in use before the first step, but only {budget} may be used \
         ({target} of a capacity of {capacity}): set a capacity above {needed}, and room for a step on top"
    )]
    CapacityTooSmall {
        /// In use before the first step.
        resident: Bytes,
        /// What may be used.
        budget: Bytes,
        /// The share of the capacity that may be used.
        target: f64,
        /// What there is.
        capacity: Bytes,
        /// What would hold what is resident; the first step needs more.
        needed: Bytes,
    },
    /// The head of the run's log cannot be written.
    #[error("use the head of the log: {0}")]
    Head(String),
}

fn reached(peak: Option<Bytes>) -> String {
    peak.map_or_else(String::new, |peak| format!(": peak {peak}"))
}

fn largest(allocation: Option<Bytes>) -> String {
    allocation.map_or_else(String::new, |it| format!(", whose largest allocation is {it}"))
}

fn others(is_checkpointing: bool) -> &'static str {
    if is_checkpointing { " or a smaller model" } else { ", gradient checkpointing or a smaller model" }
}

fn skip(may_skip: bool) -> &'static str {
    if may_skip { "; `data.bad_sample = \"skip\"` leaves it out" } else { "" }
}

fn validation_advice(source: &StepError, item: Option<&str>) -> String {
    let item = item.map_or_else(String::new, |it| format!(": {it}"));
    let enough = enough(source);
    if enough.is_empty() { item } else { format!("{item}; a capacity{enough} would help") }
}

/// Says which capacity would do where one sample alone does not fit.
fn enough(source: &StepError) -> String {
    match source {
        StepError::NeverFits { source: GuardError::NeverFits { needed: Some(needed), budget, .. }, capacity } => {
            let enough = needed.as_f64() * capacity.as_f64() / budget.as_f64().max(1.0);
            format!(" of {}", Bytes::from_f64_ceil(enough))
        }
        StepError::NeverFits { capacity, .. } => format!(" above {capacity}"),
        _ => String::new(),
    }
}
