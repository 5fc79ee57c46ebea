//! What is read of reserved bytes, and what is said about them.

use plimsoll_types::{Bytes, StepShape};
use serde::{Deserialize, Serialize};

use crate::PredictError;

/// What the allocator held at the end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservedObservation {
    /// Padded shape of the step.
    pub shape: StepShape,
    /// Bytes that the allocator held from the driver for this step alone, `resident` included, at their most.
    ///
    /// From a pool that was cleaned up before: what an earlier, larger step left behind would be taken for a change of the
    /// program, and would widen the whole key.
    pub reserved: Bytes,
    /// Bytes in use before the step; too little is safe, and zero is valid.
    pub resident: Bytes,
    /// High-water mark of the bytes in use, `resident` included, where the device tells it or a dry run did.
    ///
    /// Too much is safe; a sample taken during the step is too little, and must not be given.
    pub in_use: Option<Bytes>,
    /// The size of the pages that the allocator reserved in, or zero where it does not reserve in pages.
    pub page: Bytes,
    /// The largest single allocation of the step.
    pub largest: Bytes,
}

/// Where a prediction of reserved bytes comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The shape has run.
    Memo,
    /// The shape, or one that covers it, was planned.
    DryRun,
    /// Neither: a bound on the bytes in use, and the worst packing that was seen.
    Certificate,
}

/// What the allocator is expected to hold at the end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservedPrediction {
    /// The best single guess.
    pub expected: Bytes,
    /// An upper bound, as good as its source.
    pub upper: Bytes,
    /// Where both come from.
    pub source: Source,
}

/// How a reading of reserved bytes compares with what was predicted for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReservedResidual {
    /// What was predicted before the reading; `None` when nothing was known.
    pub predicted: Option<ReservedPrediction>,
    /// The factor by which the key was widened, because the reading was above its upper bound.
    pub widened: Option<f64>,
}

impl ReservedObservation {
    pub(super) fn check(&self) -> Result<(), PredictError> {
        check(self.shape, &[("reserved", self.reserved), ("largest", self.largest)])?;
        match self.in_use {
            Some(peak) if peak <= self.resident => {
                Err(PredictError::NothingNeeded { shape: self.shape, resident: self.resident, peak })
            }
            _ => Ok(()),
        }
    }
}

/// Refuses a shape that holds nothing and a size, by its name, of nothing.
pub(super) fn check(shape: StepShape, sizes: &[(&'static str, Bytes)]) -> Result<(), PredictError> {
    if shape.is_empty() {
        return Err(PredictError::EmptyShape(shape));
    }
    match sizes.iter().find(|(_, size)| *size == Bytes::ZERO) {
        Some((quantity, _)) => Err(PredictError::NothingRead { shape, quantity }),
        None => Ok(()),
    }
}
