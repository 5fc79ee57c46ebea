//! What can go wrong.

use std::fmt;

use burn::data::dataset::DatasetError;
use burn::train::TrainingError;
use burn::train::train::WorkerFailure;
use plimsoll_predict::PredictError;
use plimsoll_probe::ProbeError;
use plimsoll_step::{SettingError, StepError};
use plimsoll_train::BatchesError;
use plimsoll_types::Bytes;

/// Why there is no strategy, or why a training ended before its last epoch.
///
/// What ends a training is in [`LearningResult::error`](burn::train::LearningResult::error): what is wrong with the data as
/// [`TrainingError::Dataset`], whose source this is, and a step that failed as [`TrainingError::Workers`].
#[derive(Debug, thiserror::Error)]
pub enum LearnerError {
    /// The device cannot be measured.
    #[error("measure the device {device}: {reason}")]
    Device {
        /// As Burn names it.
        device: String,
        /// What would do.
        reason: &'static str,
    },
    /// Memory cannot be measured.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// A setting that makes no sense.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A reading makes no sense, or features do not.
    #[error(transparent)]
    Predict(#[from] PredictError),
    /// Accumulation that was asked for elsewhere.
    #[error(
        "use `grads_accumulation({0})`: a step already runs in as many micro-batches as fit, and its gradient is the mean over all \
         its samples; ask the loader for {0} times the samples per step instead"
    )]
    Accumulation(usize),
    /// A loader of nothing.
    #[error("train: the loader for training has no items")]
    NoItems,
    /// The samples of a step could not be read, or no batch could be made of them.
    #[error("{at}: {source}")]
    Batch {
        /// The step.
        at: At,
        /// What has happened.
        source: BatchesError,
    },
    /// A batch of a loader that is not ours did not fit.
    #[error(
        "{at}: a batch of {n_samples} samples does not fit (capacity {capacity}), and cannot run in halves, because its loader \
         makes whole batches; `GuardedStrategy::loader` makes one that can, and smaller batches would help"
    )]
    WholeBatch {
        /// The step.
        at: At,
        /// How many samples the batch has.
        n_samples: usize,
        /// What there is.
        capacity: Bytes,
    },
    /// The model's own step panicked.
    #[error("{at}: the model panicked: {message}")]
    Panicked {
        /// The step.
        at: At,
        /// What it said.
        message: String,
    },
    /// One sample alone does not fit.
    #[error("{at}: sample {index}, of length {length}: {source}")]
    Sample {
        /// The step.
        at: At,
        /// Its index in the dataset.
        index: usize,
        /// How long it is.
        length: u32,
        /// What it needs, and what there is.
        source: StepError,
    },
    /// What was still queued on the device after the last step failed.
    #[error("wait for the device: {0}")]
    Unsettled(String),
    /// A step did not happen.
    #[error("{at}: {source}")]
    Step {
        /// The step.
        at: At,
        /// Why.
        source: StepError,
    },
}

/// A place in a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The epoch, counted from 1.
    pub epoch: usize,
    /// The optimizer step in it, counted from 1.
    pub step: usize,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { epoch, step } = self;
        write!(f, "epoch {epoch}, step {step}")
    }
}

impl From<LearnerError> for TrainingError {
    fn from(error: LearnerError) -> Self {
        match error {
            LearnerError::NoItems | LearnerError::Batch { .. } => Self::Dataset(DatasetError::new(error)),
            error => Self::Workers(vec![WorkerFailure { device_id: 0, message: error.to_string() }]),
        }
    }
}
