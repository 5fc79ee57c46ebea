//! Why a step did not happen.

use burn::tensor::{ExecutionError, Tensor};
use plimsoll_guard::{Cause, GuardError, classify};
use plimsoll_probe::ProbeError;
use plimsoll_types::{Budget, Bytes};

/// Why a step did not happen; the model is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// Memory cannot be measured.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// One sample alone does not fit.
    #[error("{source} (capacity {capacity})")]
    NeverFits {
        /// The numbers.
        source: GuardError<Box<Self>>,
        /// What there is.
        capacity: Bytes,
    },
    /// The run was asked to end.
    #[error("the run was asked to end")]
    Interrupted,
    /// The device is lost to this process.
    #[error("the device is poisoned, start the process again: {0}")]
    Poisoned(String),
    /// The device failed in a way that has nothing to do with memory.
    #[error("the device failed: {0}")]
    Device(String),
    /// Data cannot be used.
    #[error("{0}")]
    Data(String),
    /// Loss or gradient is no finite number.
    #[error("loss {loss} or gradient norm {gradient_norm} is not finite: a lower learning rate may help")]
    NotFinite {
        /// The step's loss.
        loss: f64,
        /// The global norm of its gradient.
        gradient_norm: f64,
    },
}

/// Why values could not be read.
pub(super) enum ReadError {
    OutOfMemory,
    Other(Box<StepError>),
}

/// Reads a vector from the device.
pub(super) fn read_values(tensor: Tensor<1>) -> Result<Vec<f64>, ReadError> {
    let data = tensor.try_into_data().map_err(|error| read_error(&error))?;
    Ok(data.iter::<f64>().collect())
}

/// Reads a vector from the device and drops it; returns whether there was enough memory.
pub(crate) fn read_values_of(tensor: Tensor<1>) -> Result<bool, StepError> {
    match tensor.try_into_data().map_err(|error| read_error(&error)) {
        Ok(_) => Ok(true),
        Err(ReadError::OutOfMemory) => Ok(false),
        Err(ReadError::Other(error)) => Err(*error),
    }
}

fn read_error(error: &ExecutionError) -> ReadError {
    if error.is_device_poisoned() {
        return ReadError::Other(Box::new(StepError::Poisoned(error.reason().to_owned())));
    }
    match classify(error.reason()) {
        Cause::OutOfMemory { .. } => ReadError::OutOfMemory,
        Cause::Other => ReadError::Other(Box::new(StepError::Device(error.reason().to_owned()))),
    }
}

/// Says what the guard says, with the capacity.
pub(super) fn step_error(error: GuardError<Box<StepError>>, capacity: Bytes) -> StepError {
    match error {
        GuardError::Other(error) => *error,
        source @ GuardError::NeverFits { .. } => StepError::NeverFits { source, capacity },
    }
}

/// The error of a step whose accumulated gradients are damaged.
pub(super) fn out_of_memory(budget: Budget) -> StepError {
    let source = GuardError::NeverFits { sample: 0, needed: None, budget: budget.budget };
    StepError::NeverFits { source, capacity: budget.capacity }
}
