//! Everything that can end a run early.

use plimsoll_guard::GuardError;
use plimsoll_predict::PredictError;
use plimsoll_probe::ProbeError;
use plimsoll_types::Bytes;

use crate::balance::BalanceError;
use crate::checkpoint::CheckpointError;
use crate::controller::ControllerError;
use crate::loader::LoaderError;
use crate::run_dir::RunDirError;
use crate::step::StepError;

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
        "take step {step}: {source}: sample {sample} at edge {edge}{}; a capacity{}{} would help",
        largest(*.largest_allocation), enough(source), others(*.is_checkpointing)
    )]
    NeverFits {
        /// The step.
        step: u64,
        /// The numbers: [`StepError::NeverFits`].
        source: StepError,
        /// The sample.
        sample: u64,
        /// What it was cut or padded to.
        edge: u32,
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
    #[error("validate after {step} steps: {source}{}", validation_advice(source))]
    Validation {
        /// Steps done before it.
        step: u64,
        /// Why.
        source: StepError,
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
    if is_checkpointing {
        ", a smaller patch or a smaller model"
    } else {
        ", a smaller patch, gradient checkpointing or a smaller model"
    }
}

fn validation_advice(source: &StepError) -> String {
    let enough = enough(source);
    if enough.is_empty() { enough } else { format!("; a capacity{enough}, a smaller validation tile would help") }
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
