//! Where samples come from.

use plimsoll_types::{Bytes, StepShape};

/// Where samples come from: host memory in, host memory out, from several threads at once.
pub trait Source: Send + Sync + 'static {
    /// A reusable host buffer for the samples of one optimizer step.
    type Buffer: Send + 'static;

    /// Returns how many samples an epoch has.
    fn n_samples(&self) -> u64;

    /// Returns how much a buffer for steps up to `largest` holds.
    fn buffer_bytes(&self, largest: StepShape) -> Bytes;

    /// Allocates a buffer for steps up to `largest`; it never grows.
    fn buffer(&self, largest: StepShape) -> Self::Buffer;

    /// Fills `buffer` with samples of an epoch, cropped or padded to `edge`, in the order of `ids`.
    ///
    /// The content depends on nothing but the arguments and the source itself.
    ///
    /// # Errors
    ///
    /// [`SourceError`] when a sample cannot be read.
    fn collate(&self, draw: &Draw, buffer: &mut Self::Buffer) -> Result<(), SourceError>;
}

/// The samples of one optimizer step, and the edge that they get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draw {
    /// Epoch, from 0.
    pub epoch: u64,
    /// Sample ids, in order.
    pub ids: Vec<u64>,
    /// Edge of every sample.
    pub edge: u32,
}

/// A sample that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("read sample {sample_id}: {reason}")]
pub struct SourceError {
    /// The sample.
    pub sample_id: u64,
    /// What happened, with the file's name.
    pub reason: String,
}
