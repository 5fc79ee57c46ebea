//! Why a step did not happen.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use burn::tensor::{ExecutionError, Tensor, TensorData};
use plimsoll_fleet::FleetError;
use plimsoll_guard::{Cause, DeviceError, GuardError, Obstacle, classify};
use plimsoll_probe::{Probe, ProbeError};
use plimsoll_types::Bytes;

use crate::readiness::Readiness;

/// Why a step did not happen; but for [`Self::Damaged`], the model is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// Memory cannot be measured.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// One sample alone does not fit.
    #[error("{source} (capacity {capacity})")]
    NeverFits {
        /// The numbers.
        source: GuardError,
        /// What there is.
        capacity: Bytes,
    },
    /// A part does not fit, and may not run in halves.
    #[error(
        "{n_samples} samples do not fit at once, and are not to be divided: {}capacity {capacity}; fewer samples or more \
         memory would help",
        reached(*.needed)
    )]
    NotDivided {
        /// How many the part has.
        n_samples: usize,
        /// What it needs, where that is known.
        needed: Option<Bytes>,
        /// What there is.
        capacity: Bytes,
    },
    /// A device decides that losses are not read on.
    #[error("on {device}: {source}")]
    Elsewhere {
        /// Its name.
        device: String,
        /// What stands in the way there.
        source: Box<Self>,
    },
    /// The gradients of all parts together do not fit, though each part does: no sample is to blame.
    #[error(
        "each part of the step fits, and the sum of their gradients does not (capacity {capacity}): more memory or a smaller \
         model would help"
    )]
    SumNeverFits {
        /// What there is.
        capacity: Bytes,
    },
    /// An optimizer's step ran out of memory: the weights are lost, and come back from a copy or a checkpoint.
    #[error("the weights were lost, because the optimizer's step ran out of memory")]
    Damaged,
    /// The run was asked to end.
    #[error("the run was asked to end")]
    Interrupted,
    /// The device is lost to this process.
    #[error("the device is poisoned, start the process again: {0}")]
    Poisoned(String),
    /// The device failed in a way that has nothing to do with memory.
    #[error("the device failed: {0}")]
    Device(String),
    /// The device ran out of memory where nothing can be split.
    #[error("out of memory: {0}")]
    OutOfMemory(String),
    /// The host had no memory left that it could pin for transfers to the device; smaller parts free none of it.
    #[error(
        "the host has no memory left to pin for transfers, which a smaller batch does not free; a smaller \
         buffer for what is read ahead or fewer programs on this machine would help: {0}"
    )]
    HostMemory(String),
    /// Data cannot be used.
    #[error("{0}")]
    Data(String),
    /// Loss or gradient is no finite number.
    #[error("{}gradient norm {gradient_norm} is not finite: a lower learning rate may help", loss_or(*.loss))]
    NotFinite {
        /// The step's loss, where it is known.
        loss: Option<f64>,
        /// The global norm of its gradient.
        gradient_norm: f64,
    },
    /// Ranks cannot do something together.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// Not all ranks go on with the step.
    #[error("rank {rank} {}", does(*.standing))]
    Apart {
        /// The first of those that stand worst.
        rank: u32,
        /// How it stands.
        standing: Readiness,
    },
    /// Ranks are not at one step.
    #[error("rank {rank} is at step {step}, and rank {own_rank} at step {own_step}")]
    OtherStep {
        /// The first that is at another.
        rank: u32,
        /// Its step.
        step: u64,
        /// This one.
        own_rank: u32,
        /// Its step.
        own_step: u64,
    },
    /// Ranks have come to different weights: they do not run the same program on the same kind of device.
    #[error(
        "rank {rank} has other weights than rank 0 after step {step}: ranks run one program, on devices of one kind"
    )]
    OtherWeights {
        /// The first that has others.
        rank: u32,
        /// The step.
        step: u64,
    },
    /// Ranks have read different samples for one step.
    #[error("rank {rank} has other samples for step {step} than rank 0: ranks read the same data")]
    OtherSamples {
        /// The first that has others.
        rank: u32,
        /// The step.
        step: u64,
    },
}

fn does(standing: Readiness) -> String {
    match standing {
        Readiness::Ready => "is ready".to_owned(),
        Readiness::LeavesOut { extent } => format!("cannot hold a sample padded to {extent}"),
        Readiness::GoesBack => "has lost its weights, and goes back to the last checkpoint".to_owned(),
    }
}

fn reached(needed: Option<Bytes>) -> String {
    needed.map_or_else(String::new, |needed| format!("needed {needed}, "))
}

fn loss_or(loss: Option<f64>) -> String {
    loss.map_or_else(String::new, |loss| format!("loss {loss} or "))
}

impl StepError {
    /// Returns the place inside the step of the sample that does not fit.
    pub fn sample(&self) -> Option<usize> {
        match self {
            Self::NeverFits { source, .. } => source.sample(),
            Self::Elsewhere { source, .. } => source.sample(),
            _ => None,
        }
    }

    /// Says what stands in the way, with what there is.
    pub(crate) fn of(obstacle: Obstacle, capacity: Bytes) -> Self {
        match obstacle {
            Obstacle::Samples(GuardError::NotDivided { n_samples, needed, .. }) => {
                Self::NotDivided { n_samples, needed, capacity }
            }
            Obstacle::Samples(source) => Self::NeverFits { source, capacity },
            Obstacle::Sum => Self::SumNeverFits { capacity },
            Obstacle::Update { .. } => Self::Damaged,
            Obstacle::Item => unreachable!("an item of a validation is no part of a step"),
        }
    }
}

impl From<ExecutionError> for StepError {
    fn from(error: ExecutionError) -> Self {
        let reason = error.reason().to_owned();
        match cause(&error, Bytes::MAX) {
            Cause::Poisoned => Self::Poisoned(reason),
            Cause::OutOfMemory { .. } | Cause::NeverFits { .. } => Self::OutOfMemory(reason),
            Cause::HostMemory => Self::HostMemory(reason),
            Cause::Other => Self::Device(reason),
        }
    }
}

/// Why values could not be read.
pub(crate) enum ReadError {
    /// There was not enough memory for them, or for what they are made of.
    OutOfMemory {
        /// What the device refused.
        refused: Option<Bytes>,
    },
    /// A tensor that no device of this kind serves.
    NeverFits { allocation: Bytes, largest: Bytes },
    /// Anything else.
    Other(Box<StepError>),
}

/// Reads a vector from the device.
pub(crate) fn read_values(tensor: Tensor<1>, probe: &dyn Probe) -> Result<Vec<f64>, ReadError> {
    read_data(tensor, probe).map(|data| data.iter::<f64>().collect())
}

/// Reads a tensor from the device.
pub(crate) fn read_data<const D: usize>(tensor: Tensor<D>, probe: &dyn Probe) -> Result<TensorData, ReadError> {
    // A device that does not know its limit has none that a tensor could be above.
    let largest = || probe.largest_allocation().unwrap_or(Bytes::MAX);
    // CubeCL panics at the next read when it had no memory to pass a kernel its arguments; a read ends where it is used.
    let read = || tensor.try_into_data().inspect(|data| _ = data.as_bytes().first());
    let read = unless_out_of_memory(read).map_err(|error| ReadError::Other(Box::new(error)))?;
    let Some(read) = read else { return Err(ReadError::OutOfMemory { refused: None }) };
    read.map_err(|error| match cause(&error, largest()) {
        Cause::OutOfMemory { allocation: refused } => ReadError::OutOfMemory { refused },
        Cause::NeverFits { allocation, largest } => ReadError::NeverFits { allocation, largest },
        Cause::HostMemory | Cause::Poisoned | Cause::Other => ReadError::Other(Box::new(error.into())),
    })
}

/// Does something with the device; returns `None` after a panic for want of memory.
///
/// Any other panic goes on.
///
/// # Errors
///
/// [`StepError::HostMemory`] after a panic for want of memory of the host, of which smaller parts free none.
pub(crate) fn unless_out_of_memory<T>(work: impl FnOnce() -> T) -> Result<Option<T>, StepError> {
    let explain = |panic: Box<dyn Any + Send>| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref().copied());
        let text = text.unwrap_or_default();
        match classify(DeviceError { text, is_poisoned: false }, Bytes::MAX) {
            Cause::OutOfMemory { .. } => Ok(None),
            Cause::HostMemory => Err(StepError::HostMemory(text.to_owned())),
            Cause::NeverFits { .. } | Cause::Poisoned | Cause::Other => resume_unwind(panic),
        }
    };
    catch_unwind(AssertUnwindSafe(work)).map_or_else(explain, |done| Ok(Some(done)))
}

/// Reads a vector from the device and drops it; returns whether there was enough memory.
pub(crate) fn is_readable(tensor: Tensor<1>, probe: &dyn Probe) -> Result<bool, StepError> {
    match read_values(tensor, probe) {
        Ok(_) => Ok(true),
        Err(ReadError::OutOfMemory { .. } | ReadError::NeverFits { .. }) => Ok(false),
        Err(ReadError::Other(error)) => Err(*error),
    }
}

fn cause(error: &ExecutionError, largest: Bytes) -> Cause {
    classify(DeviceError { text: error.reason(), is_poisoned: error.is_device_poisoned() }, largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_pinned_on_the_host_is_no_reason_to_halve_a_step() {
        let reason = "Unknown error happened during execution: cuMemAllocHost_v2 failed with error code: \
                      CUDA_ERROR_OUT_OF_MEMORY";
        let error = StepError::from(ExecutionError::generic(reason));
        assert!(matches!(error, StepError::HostMemory(_)), "{error}");
        assert!(error.to_string().contains("a smaller batch does not free"), "{error}");
    }

    #[test]
    fn a_panic_for_want_of_memory_is_no_result_and_one_for_want_of_pinned_memory_is_an_error_with_advice() {
        let panics = |text: &'static str| unless_out_of_memory(|| panic!("{text}"));
        assert!(matches!(panics("can't allocate buffer of size: 4096"), Ok(None::<()>)));
        let error = panics("Unable to reserve pinned memory").unwrap_err();
        assert!(matches!(error, StepError::HostMemory(_)), "{error}");
        assert!(error.to_string().contains("a smaller batch does not free"), "{error}");
        assert!(matches!(unless_out_of_memory(|| 3), Ok(Some(3))));
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn a_panic_about_anything_else_goes_on() {
        drop(unless_out_of_memory(|| panic!("index out of bounds")));
    }
}
