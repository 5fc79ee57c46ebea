//! What a run is told.

use plimsoll_types::{Bytes, Fraction};
use serde::{Deserialize, Serialize};

use crate::controller::ControllerConfig;
use crate::learning_rate::LearningRate;
use crate::workers::BadSample;

/// The settings of a run that do not belong to its job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitConfig {
    /// Description of the device, for the log.
    pub device: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Optimizer steps.
    pub n_steps: u64,
    /// Samples per optimizer step; constant but for the last step of an epoch, which takes what is left.
    pub effective_batch_size: u32,
    /// The learning rate.
    pub learning_rate: LearningRate,
    /// The part of the capacity that a step may use.
    pub target: Fraction,
    /// Predictor and policy.
    pub controller: ControllerConfig,
    /// The largest edge that the policy may choose.
    pub largest_edge: u32,
    /// Steps between two validations; the last step is always followed by one.
    pub validate_every: u64,
    /// Steps between two checkpoints; the last step is always followed by one.
    pub checkpoint_every: u64,
    /// Checkpoints kept.
    pub keep_checkpoints: usize,
    /// Worker threads of the loader.
    pub workers: usize,
    /// Host memory that the loader's buffers may hold together.
    pub buffer_limit: Bytes,
    /// What becomes of a sample that cannot be read.
    pub bad_sample: BadSample,
}
