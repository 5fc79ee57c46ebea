//! Steps and batches of a program's own dataset, with its own batcher.

mod batched;
mod builder;
mod costs;
mod data;
mod epoch;
mod error;
mod group;
mod limits;
mod loader;
mod order;
mod packed;
mod part;
mod place;
mod position;
mod row;
mod supply;
mod table;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use burn::data::dataloader::batcher::Batcher;
use burn::tensor::Device;
use plimsoll_sampler::AdmitCounts;

pub use self::builder::{BatchesBuilder, batches};
use self::data::Data;
pub use self::epoch::{Epoch, StepItems};
pub use self::error::BatchesError;
pub use self::limits::Limits;
pub use self::loader::BatchLoader;
pub use self::packed::{PackedBuilder, packed_batches};
pub use self::position::Position;
pub use self::row::{Row, RowPart};
use crate::workers::message;

/// Counts the samples of a batch.
type Rows<O> = Arc<dyn Fn(&O) -> usize + Send + Sync>;

/// Samples of a dataset, each once per epoch, in optimizer steps of one size; [`batches()`] makes them.
///
/// Samples that cost much the same come together, shuffled anew in every epoch, so that they are padded little.
/// The order depends on the costs, the seed, the size of a step and the epoch only: not on the number of workers, on how
/// fast they are, or on what fits.
/// Only items of the dataset are read ahead, on the host; [`Self::batch`] runs where it is called.
pub struct Batches<I, O> {
    data: Arc<Data<I>>,
    batcher: Arc<dyn Batcher<I, O>>,
    rows: Option<Rows<O>>,
}

impl<I, O> Clone for Batches<I, O> {
    fn clone(&self) -> Self {
        Self { data: Arc::clone(&self.data), batcher: Arc::clone(&self.batcher), rows: self.rows.clone() }
    }
}

impl<I: Send + 'static, O: 'static> Batches<I, O> {
    /// How many samples take part; an epoch has fewer or more where `task_mix` ends it otherwise, and those that `drop_last`
    /// leaves out are among them.
    pub fn n_samples(&self) -> usize {
        self.data.n_samples()
    }

    /// How many items an epoch has: its samples, or about so many rows of them.
    pub fn n_items(&self) -> usize {
        self.data.n_items()
    }

    /// How many samples of the dataset do not take part, or not as they are, for what they cost.
    pub fn left_out(&self) -> AdmitCounts {
        self.data.items.table.left_out
    }

    /// The optimizer steps of an epoch, from 0.
    pub fn epoch(&self, epoch: usize) -> Epoch<I> {
        Epoch::new(&self.data, self.data.start(epoch, false))
    }

    /// The optimizer steps that were left of an epoch, or the next epoch where there was none left.
    ///
    /// # Errors
    ///
    /// [`BatchesError::Sampler`] when the position was taken with other costs, another seed or other steps,
    /// [`BatchesError::OtherPosition`] when it was taken of a loader.
    pub fn resume(&self, position: &Position) -> Result<Epoch<I>, BatchesError> {
        Ok(Epoch::new(&self.data, self.data.resume(position, false)?))
    }

    /// Makes a batch of some items.
    ///
    /// # Errors
    ///
    /// [`BatchesError::BatcherPanicked`], and [`BatchesError::Rows`] where rows are counted.
    pub fn batch(&self, items: Vec<I>, device: &Device) -> Result<O, BatchesError> {
        let n_samples = items.len();
        let batch = catch_unwind(AssertUnwindSafe(|| self.batcher.batch(items, device)))
            .map_err(|panic| BatchesError::BatcherPanicked { n_samples, message: message(panic.as_ref()) })?;
        let n_rows = self.rows.as_ref().map_or(n_samples, |rows| rows(&batch));
        if n_rows == n_samples { Ok(batch) } else { Err(BatchesError::Rows { n_samples, n_rows }) }
    }

    /// The samples from one place to another.
    fn slice(&self, range: Range<usize>) -> Result<Self, BatchesError> {
        Ok(Self { data: Arc::new(self.data.slice(range)?), ..self.clone() })
    }

    /// Burn's own data loader of these samples, whose batches have as many samples as an optimizer step, or fewer where
    /// `limits` says that these do not fit.
    pub fn loader(&self, limits: impl Limits + 'static, device: &Device) -> Arc<BatchLoader<I, O>> {
        Arc::new(BatchLoader::new(self.clone(), Arc::new(limits), device))
    }
}
