//! What keeps a loader from going on.

use plimsoll_sampler::SamplerError;
use plimsoll_types::{Bytes, Extent};

use crate::source::SourceError;

/// Lets `?` turn the sampler's answers to any of its questions into an error that has one variant for all of them.
macro_rules! from_sampler {
    ($error:ty: $($answer:ident),+) => {$(
        impl From<plimsoll_sampler::$answer> for $error {
            fn from(error: plimsoll_sampler::$answer) -> Self {
                Self::Sampler(error.into())
            }
        }
    )+};
}
pub(crate) use from_sampler;

from_sampler!(LoaderError: IndexError, PlanError, PositionError, PackError, StreamError, DealError);

/// What keeps a loader from going on.
#[derive(Debug, thiserror::Error)]
pub enum LoaderError {
    /// The samples cannot be planned.
    #[error(transparent)]
    Sampler(#[from] SamplerError),
    /// A sample cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Fewer than two steps fit into the limit.
    #[error(
        "load ahead: `data.buffer_limit` is {limit}, and two steps of {step} each{} need {needed}; \
         `data.buffer_limit = \"{needed}\"` or \"auto\" would do",
        halves(*.is_streamed)
    )]
    BufferLimit {
        /// What one step needs.
        step: Bytes,
        /// Whether as much again is for samples that are read before they are planned.
        is_streamed: bool,
        /// What would do.
        needed: Bytes,
        /// The limit.
        limit: Bytes,
    },
    /// Two steps take more of the host's memory than they may unless somebody says so.
    #[error(
        "load ahead: two steps of {step} each{} need {needed}, more than half of the {capacity} that {}; a smaller \
         `batch.effective_batch_size`, {} {enough} or `data.buffer_limit = \"{needed}\"` would help",
        halves(*.is_streamed), there_are(*.is_on_host), more_memory(*.is_on_host)
    )]
    BufferCapacity {
        /// What one step needs.
        step: Bytes,
        /// Whether as much again is for samples that are read before they are planned.
        is_streamed: bool,
        /// What two steps need.
        needed: Bytes,
        /// What there is.
        capacity: Bytes,
        /// Whether that is the host's, beside a device that has its own, whose capacity has no part in it.
        is_on_host: bool,
        /// As much memory as they take half of.
        enough: Bytes,
    },
    /// A worker thread panicked.
    #[error("collate a step: a worker panicked: {0}")]
    WorkerPanicked(String),
    /// Every buffer is with the caller.
    #[error("load the next step: every buffer is in use; give one back with `recycle`")]
    NoBuffer,
    /// A checkpoint of samples of another kind.
    #[error("go on with the samples: the checkpoint was made of samples with lengths of another kind")]
    OtherPosition,
    /// Steps of which none is whole.
    #[error(
        "plan the steps: an epoch of {n_samples} samples makes no whole step, and `batch.drop_last` leaves out what is none; a \
         smaller `batch.effective_batch_size` or `batch.drop_last = false` would help"
    )]
    DropsAll {
        /// Samples of an epoch.
        n_samples: u64,
    },
    /// Shares of tasks whose samples stay together.
    #[error(
        "keep groups together: they are not mixed by tasks; the shares and the mix of tasks take samples one by one"
    )]
    GroupedTasks,
    /// A setting that samples of this kind do not have.
    #[error("plan the steps: `batch.{key}` is {value}, for samples that are {samples} it must be {allowed}")]
    NotOfSamples {
        /// Its name.
        key: &'static str,
        /// What it says.
        value: String,
        /// What becomes of the samples.
        samples: &'static str,
        /// What it may say.
        allowed: String,
    },
    /// A multiple that no batch of a step has room for.
    #[error(
        "plan the steps: `batch.multiple_of` is {multiple}, it must be at most {most}, as many samples of length {cell} as a \
         step allows a batch; fewer `batch.batches_per_step` or a larger `batch.effective_batch_size` would help"
    )]
    MultipleAboveStep {
        /// The multiple.
        multiple: u32,
        /// The most samples of a batch.
        most: u32,
        /// What its samples are padded to.
        cell: Extent,
    },
    /// Sources that are not what the samples come from.
    #[error("mix the sources: they have {n_of_sources} samples together, and there are {n_samples}")]
    OtherSources {
        /// Samples of all sources together.
        n_of_sources: u64,
        /// Samples that there are.
        n_samples: u64,
    },
    /// Samples and cells of another number of axes.
    #[error(
        "plan the steps: samples have lengths along {n_axes} axes, and the cells that they are padded to {of_cells}"
    )]
    OtherAxes {
        /// Axes of the samples.
        n_axes: usize,
        /// Axes of the cells.
        of_cells: usize,
    },
    /// The policy chooses edges for samples that have lengths, or the other way round.
    #[error("plan the steps: the policy and the samples do not agree on who chooses the edges")]
    OtherSamples,
}

/// Says what a stream takes besides.
fn halves(is_streamed: bool) -> &'static str {
    if is_streamed { ", and as much again for samples that are read before they are planned," } else { "" }
}

fn there_are(is_on_host: bool) -> &'static str {
    if is_on_host { "the host has free, beside the device's own" } else { "there are" }
}

fn more_memory(is_on_host: bool) -> &'static str {
    if is_on_host { "a host with" } else { "a capacity of" }
}
