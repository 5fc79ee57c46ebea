//! What can go wrong.

use std::io;
use std::path::PathBuf;

use plimsoll_plan::{FindError, PlanError};
use plimsoll_predict::PredictError;
use plimsoll_probe::ProbeError;
use plimsoll_step::{SettingError, StepError};
use plimsoll_train::BatchesError;
use plimsoll_types::StepShape;

/// Why there is no step, or why one did not happen; see [`Step::run`](crate::Step::run) for what has happened then.
#[derive(Debug, thiserror::Error)]
pub enum Error {
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
    /// A step of nothing.
    #[error("run a step: there is no sample in it")]
    NoSamples,
    /// A loss of several numbers.
    #[error("run a step: the loss has {n_values} values, one is needed: take the mean over the part's samples")]
    LossIsNotScalar {
        /// How many it has.
        n_values: usize,
    },
    /// The samples make no batch.
    #[error("run a step: {0}")]
    Batches(#[from] BatchesError),
    /// A model with nothing to train.
    #[error("run a step of {model}: it has no parameters, so that there is nothing to train")]
    NoParameters {
        /// The type of the model.
        model: &'static str,
    },
    /// Nothing to plan.
    #[error("plan: no shape was asked for; `shapes([(8, 128)])` asks for 8 samples of edge 128")]
    NoShapes,
    /// A part that is larger than its step.
    #[error(
        "plan a part of shape {shape}: its step has {n_samples} samples, by `effective_batch`, and no part has more"
    )]
    BeyondStep {
        /// The shape.
        shape: StepShape,
        /// What a step has.
        n_samples: u32,
    },
    /// A sample of nothing.
    #[error("run a step: sample {index} has length 0; a length is 1 or more")]
    EmptySample {
        /// Its place among the samples of the step, or its index in the dataset of [`Batches`](crate::Batches).
        index: usize,
    },
    /// One sample alone does not fit.
    #[error("run a step: sample {index}, of length {length}: {source}")]
    Sample {
        /// Its place among the samples of the step, or its index in the dataset of [`Batches`](crate::Batches).
        index: usize,
        /// How long it is.
        length: u32,
        /// What it needs, and what there is.
        source: StepError,
    },
    /// A batch of nothing.
    #[error("plan a step of shape {shape}: it is empty; a batch has a sample at least, and an edge is 1 or more")]
    EmptyShape {
        /// What was asked for.
        shape: StepShape,
    },
    /// One of several devices decides.
    #[error("on {device}: {source}")]
    Elsewhere {
        /// Its name.
        device: String,
        /// What is wrong there.
        source: Box<Self>,
    },
    /// The program panicked.
    #[error("{doing}: the program panicked: {message}")]
    Panicked {
        /// What it was asked to do.
        doing: String,
        /// What it said.
        message: String,
    },
    /// There is no plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// There is no batch size.
    #[error(transparent)]
    Find(#[from] FindError),
    /// A reading makes no sense, or features do not.
    #[error(transparent)]
    Predict(#[from] PredictError),
    /// The step did not happen.
    #[error("run a step: {0}")]
    Step(#[from] StepError),
    /// The model cannot be kept: some of its weights, or of their average, were lost when the device ran out of memory.
    #[error("save {}: some weights were lost, because the device ran out of memory after the last check; go on from the \
             checkpoint before", .0.display())]
    Lost(PathBuf),
    /// A checkpoint cannot be written.
    #[error("save {}: {source}", path.display())]
    Save {
        /// Where it was to be.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A checkpoint cannot be used.
    #[error("load {}: {reason}", path.display())]
    Load {
        /// The checkpoint, or its file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl Error {
    /// Says of which sample it is, where that is one of several that are known by other numbers.
    pub(crate) fn renumbered(self, number: impl Fn(usize) -> usize) -> Self {
        match self {
            Self::EmptySample { index } => Self::EmptySample { index: number(index) },
            Self::Sample { index, length, source } => Self::Sample { index: number(index), length, source },
            error => error,
        }
    }

    /// Returns the samples of a step, if they were given.
    pub(crate) fn check_samples(n: Option<u32>) -> Result<Option<u32>, SettingError> {
        let (name, wanted) = ("effective_batch", "a number of samples from 1");
        if n == Some(0) { Err(SettingError { name, value: 0.0, wanted }) } else { Ok(n) }
    }
}
