//! What brings a step its samples.

use serde::{Deserialize, Serialize};

use crate::Bytes;

/// How far ahead of a step its samples were read, where they are streamed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SupplyStep {
    /// Threads that read samples.
    pub workers: u32,
    /// How long was waited for samples since the step before, in seconds.
    pub waited_seconds: f64,
    /// Steps that were collated and waited for their turn when this one was done.
    pub ready_steps: u32,
    /// Samples that the look-ahead buffer held then, those of steps to come included.
    pub buffered_samples: u64,
    /// Their host memory.
    pub buffered_bytes: Bytes,
    /// The part that this is of the most that the buffer may hold, of samples or of memory, whichever is more; steps that are
    /// larger than the buffer make it more than 1.
    pub buffer_fill: f64,
}
