//! What can go wrong.

use plimsoll_predict::PredictError;
use plimsoll_probe::ProbeError;
use plimsoll_step::StepError;

/// Why there is no step, or why one did not happen; but for [`StepError::Damaged`], the model is as it was before then.
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
    /// A budget that is no share.
    #[error("use a budget of {0}: it is a share of the capacity, above 0 and at most 1")]
    Budget(f64),
    /// A step of nothing.
    #[error("run a step: there is no sample in it")]
    NoSamples,
    /// A loss of several numbers.
    #[error("run a step: the loss has {n_values} values, one is needed: take the mean over the part's samples")]
    LossIsNotScalar {
        /// How many it has.
        n_values: usize,
    },
    /// A reading makes no sense.
    #[error(transparent)]
    Predict(#[from] PredictError),
    /// The step did not happen.
    #[error("run a step: {0}")]
    Step(#[from] StepError),
}
