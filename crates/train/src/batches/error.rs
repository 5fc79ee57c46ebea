//! What can go wrong with a program's own data.

use std::sync::Arc;

use burn::data::dataset::DatasetError;
use plimsoll_sampler::SamplerError;

use crate::loader::from_sampler;

/// Why there are no batches, or no further ones; a sample is named by its index in the dataset.
#[derive(Debug, thiserror::Error)]
pub enum BatchesError {
    /// A dataset of nothing.
    #[error("make batches: the dataset has no samples")]
    NoSamples,
    /// A setting is zero.
    #[error("make batches: `{key}` is 0, it must be at least 1")]
    BelowOne {
        /// The setting.
        key: &'static str,
    },
    /// A cost that is no length.
    #[error("make batches: sample {sample} costs {cost}, a cost is from 1 to {}", u32::MAX)]
    Cost {
        /// The sample.
        sample: usize,
        /// What it costs.
        cost: usize,
    },
    /// Limits that are not one for each axis.
    #[error("make batches: `max_padded` has {n_limits} limits for samples of {n_axes} axes, one for each is needed")]
    LimitCount {
        /// How many are given.
        n_limits: usize,
        /// How many axes the samples have.
        n_axes: usize,
    },
    /// Samples of several axes of which one length is to be admitted.
    #[error("make batches: `admit` bounds one length, the samples have {n_axes}; filter the dataset instead")]
    AdmitOfAxes {
        /// How many axes the samples have.
        n_axes: usize,
    },
    /// Samples of several axes for what knows one.
    #[error(
        "take a step of samples of {n_axes} axes: what a guarded step needs is known by one length; say what a sample costs by \
         `cost`, or take the batches of a loader"
    )]
    SeveralAxes {
        /// How many axes the samples have.
        n_axes: usize,
    },
    /// Steps of which none is whole.
    #[error(
        "make batches: {n_samples} samples make no whole step, and `drop_last` leaves out what is none; a smaller \
         `effective_batch` or `effective_cost` would do"
    )]
    DropsAll {
        /// Samples of an epoch.
        n_samples: usize,
    },
    /// A part of the samples that makes no batches, such as one of less than a whole step where that is left out.
    #[error("slice a loader from sample {start} to {end}: {error}")]
    Slice {
        /// The first of them, counted among those that take part and are sliced.
        start: usize,
        /// The one after the last.
        end: usize,
        /// What is wrong with them.
        error: Arc<Self>,
    },
    /// A column of costs that is not the dataset's.
    #[error("make batches: there are {n_costs} costs for {n_samples} samples")]
    CostCount {
        /// How many are given.
        n_costs: usize,
        /// How many samples the dataset has.
        n_samples: usize,
    },
    /// The dataset has refused a sample.
    #[error("read sample {sample}: {error}")]
    Read {
        /// The sample.
        sample: usize,
        /// What the dataset says.
        error: DatasetError,
    },
    /// The dataset, the cost function or the size function has panicked over a sample.
    #[error("read sample {sample}: it panicked: {message}")]
    ReadPanicked {
        /// The sample.
        sample: usize,
        /// What it says.
        message: String,
    },
    /// The batcher has panicked.
    #[error("batch {n_samples} samples: the batcher panicked: {message}")]
    BatcherPanicked {
        /// How many they are.
        n_samples: usize,
        /// What it says.
        message: String,
    },
    /// A batch has lost samples, or has too many.
    #[error("batch {n_samples} samples: the batcher has made a batch of {n_rows}")]
    Rows {
        /// How many they are.
        n_samples: usize,
        /// How many the batch has.
        n_rows: usize,
    },
    /// A loader's batch has gone wrong.
    #[error("{error}, of the indices {}", listed(.indices))]
    Batch {
        /// The samples.
        indices: Vec<usize>,
        /// What has happened.
        error: Box<Self>,
    },
    /// Not even one sample fits.
    #[error("batch sample {sample}: it costs {cost}, and a batch of it alone does not fit into the budget")]
    NeverFits {
        /// The sample.
        sample: usize,
        /// What it costs.
        cost: u32,
    },
    /// The samples cannot be planned, or a position was taken of others.
    #[error(transparent)]
    Sampler(#[from] SamplerError),
    /// A position of whole steps for a loader, or the other way round.
    #[error("go on with the samples: the position was taken of {}", kinds(*.is_of_loader))]
    OtherPosition {
        /// Whether it is that of a loader.
        is_of_loader: bool,
    },
    /// A position of packed rows for padded samples, or the other way round.
    #[error("go on with the samples: the position was taken of {}", layouts(*.is_packed))]
    OtherLayout {
        /// Whether it is that of packed rows.
        is_packed: bool,
    },
    /// The threads that read ahead are gone.
    #[error("read ahead: {0}")]
    Workers(String),
}

from_sampler!(BatchesError: IndexError, PlanError, PackError, PositionError);

/// Says what a position is of, and what it is not of.
fn kinds(is_of_loader: bool) -> &'static str {
    if is_of_loader { "a loader, not of an epoch of steps" } else { "an epoch of steps, not of a loader" }
}

fn layouts(is_packed: bool) -> &'static str {
    if is_packed { "packed rows, not of padded samples" } else { "padded samples, not of packed rows" }
}

/// How many indices are listed.
const LISTED: usize = 8;

/// Lists indices, of many the first.
fn listed(indices: &[usize]) -> String {
    let first: Vec<_> = indices.iter().take(LISTED).map(usize::to_string).collect();
    let more = indices.len().saturating_sub(LISTED);
    if more == 0 { first.join(", ") } else { format!("{} and {more} more", first.join(", ")) }
}
