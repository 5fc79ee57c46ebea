//! What ran out of memory.

use serde::{Deserialize, Serialize};

use crate::{Bytes, Knobs, StepShape};

/// A step that ran out of memory, and is tried again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepFailed {
    /// Optimizer step, from 0.
    pub step: u64,
    /// The knobs that were asked for.
    pub rung: Knobs,
    /// What was tried.
    pub attempt: Attempt,
    /// Capacity at that moment.
    pub capacity: Bytes,
    /// What failed.
    #[serde(default, skip_serializing_if = "Stage::is_micro_batch")]
    pub stage: Stage,
}

/// What of a step ran out of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// A forward and backward pass: its samples run again, in parts.
    #[default]
    MicroBatch,
    /// The optimizer's step: the whole step runs again from a state before it.
    Optimizer,
    /// The process ended with it: another one took over.
    Process,
}

impl Stage {
    /// Whether a micro-batch failed, as usual.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
    fn is_micro_batch(&self) -> bool {
        *self == Self::MicroBatch
    }
}

/// One attempt at a micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Shape of the micro-batch.
    pub shape: StepShape,
    /// Bytes in use before it.
    pub resident: Bytes,
    /// High-water mark that it reached, where the device could still say.
    pub peak: Option<Bytes>,
    /// The size of the largest pages in which that was reserved, or zero where the device tells exact peaks.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub page: Bytes,
    /// The allocation that the device refused, where it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Bytes>,
    /// The nodes of its graph, or zero where that is small.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub nodes: u64,
}

impl Attempt {
    /// Describes an attempt of which nothing else is known.
    pub const fn new(shape: StepShape, resident: Bytes) -> Self {
        Self { shape, resident, peak: None, page: Bytes::ZERO, refused: None, nodes: 0 }
    }
}
