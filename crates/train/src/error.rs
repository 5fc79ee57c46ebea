//! Everything that can end a run early.

use plimsoll_predict::PredictError;
use plimsoll_probe::ProbeError;
use plimsoll_types::Bytes;

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
    /// A validation failed.
    #[error("validate after {step} steps: {source}")]
    Validation {
        /// Steps done before it.
        step: u64,
        /// Why.
        source: StepError,
    },
    /// What is resident before the first step leaves no room.
    #[error(
        "start: {resident} are in use before the first step, but only {budget} may be used \
         ({target} of a capacity of {capacity}): set a capacity of at least {needed}"
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
    /// One setting contradicts another.
    #[error("{0}")]
    Config(String),
}
