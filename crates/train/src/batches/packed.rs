//! What is wanted of packed rows.

use std::sync::Arc;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataset::Dataset;
use plimsoll_sampler::{PackConfig, Split, TaskMix};
use plimsoll_types::Bytes;

use super::builder::READ_AHEAD;
use super::costs::{Columns, Costs, TaskOf};
use super::data::{Data, Items, Layout};
use super::error::BatchesError;
use super::group::StepOf;
use super::row::Row;
use super::supply::{InRows, OfItem, Samples};
use super::table::Table;
use super::{Batches, Rows};

/// Makes batches of rows in which samples of a program's own dataset lie end to end, with its own batcher.
///
/// A row has `row_len` positions, tokens say, of which hardly any is empty; a batch is so many [`Row`]s, and no sample of
/// one sees another where the model goes by [`Row::layout`].
///
/// # Example
///
/// ```
/// # use plimsoll_train as plimsoll;
/// use burn::data::dataloader::DataLoader;
/// use burn::data::dataloader::batcher::Batcher;
/// use burn::data::dataset::InMemDataset;
/// use burn::tensor::{Device, Int, Tensor};
/// use plimsoll::Row;
///
/// /// Tokens and the place of each in its text: `[n_rows, row_len]` both.
/// struct Lay;
///
/// impl Batcher<Row<Vec<i32>>, [Tensor<2, Int>; 2]> for Lay {
///     fn batch(&self, rows: Vec<Row<Vec<i32>>>, device: &Device) -> [Tensor<2, Int>; 2] {
///         let layout = Row::layout(&rows);
///         let dims = [layout.len(), layout.row_len() as usize];
///         let (mut tokens, mut places) = (vec![0; dims[0] * dims[1]], vec![0; dims[0] * dims[1]]);
///         layout.collate(0, &mut tokens, |piece, into| {
///             let part = &rows[piece.id.0].parts[piece.id.1];
///             into.copy_from_slice(&part.item[part.range.clone()]);
///         });
///         layout.position_ids(&mut places);
///         let places: Vec<i32> = places.into_iter().map(|it| it as i32).collect();
///         [tokens, places].map(|it| Tensor::<1, Int>::from_ints(&*it, device).reshape(dims))
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let texts = InMemDataset::new((1..=500).map(|n_words| vec![7; n_words % 60 + 1]).collect());
/// let batches = plimsoll::packed_batches(texts, Lay, 256).cost(|text| text.len()).effective_cost(2048).build()?;
///
/// // Two rows fit at once: a step has four batches.
/// let loader = batches.loader(2, &Device::flex());
/// for batch in loader.iter() {
///     assert_eq!(batch?[0].dims()[1], 256);
/// }
/// # Ok(())
/// # }
/// ```
pub fn packed_batches<I: Send + 'static, O: 'static>(
    dataset: impl Dataset<I> + 'static,
    batcher: impl Batcher<Row<I>, O> + 'static,
    row_len: u32,
) -> PackedBuilder<I, O> {
    PackedBuilder {
        samples: Samples { dataset: Arc::new(dataset), size: None },
        batcher: Arc::new(batcher),
        costs: Costs::One,
        tasks: None,
        weights: None,
        mix: TaskMix::default(),
        step: StepOf { size: 32, is_cost: false, groups: 1 },
        config: PackConfig::new(row_len),
        workers: 1,
        read_ahead: READ_AHEAD,
        units: Arc::new(Row::n_filled),
        rows: None,
    }
}

/// What is wanted of packed rows; see [`packed_batches()`].
pub struct PackedBuilder<I, O> {
    samples: Samples<I>,
    batcher: Arc<dyn Batcher<Row<I>, O>>,
    costs: Costs<I>,
    tasks: Option<TaskOf<I>>,
    weights: Option<Vec<f64>>,
    mix: TaskMix,
    step: StepOf,
    config: PackConfig,
    workers: usize,
    read_ahead: Bytes,
    units: OfItem<Row<I>>,
    rows: Option<Rows<O>>,
}

impl<I: Send + 'static, O: 'static> PackedBuilder<I, O> {
    /// Says how many positions a sample takes, such as its tokens, from 1; 1 unless told otherwise.
    ///
    /// Every sample is read once for it, by the workers, when the batches are built.
    #[must_use]
    pub fn cost(self, cost: impl Fn(&I) -> usize + Send + Sync + 'static) -> Self {
        Self { costs: Costs::along(move |it| [cost(it)]), ..self }
    }

    /// Says how many positions each sample takes, in the order of the dataset, so that none is read for it.
    #[must_use]
    pub fn costs(self, costs: Vec<usize>) -> Self {
        Self { costs: Costs::Column(costs), ..self }
    }

    /// Cuts a sample that is longer than a row into parts as long as one, and a last one, each of which begins with so many
    /// positions of the one before; refused unless told so.
    ///
    /// A sample is read anew for each of its parts.
    #[must_use]
    pub fn split(self, overlap: u32) -> Self {
        Self { config: PackConfig { split: Split::Cut { overlap }, ..self.config }, ..self }
    }

    /// Ends an optimizer step with the row by which the epoch reaches the next multiple of so many samples, 32 by default.
    #[must_use]
    pub fn effective_batch(self, n_samples: usize) -> Self {
        Self { step: StepOf { size: n_samples, is_cost: false, ..self.step }, ..self }
    }

    /// Ends an optimizer step with the row by which the epoch reaches the next multiple of so many positions, without what is
    /// empty.
    #[must_use]
    pub fn effective_cost(self, cost: usize) -> Self {
        Self { step: StepOf { size: cost, is_cost: true, ..self.step }, ..self }
    }

    /// Draws the order of every epoch from this; 0 by default.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { config: PackConfig { seed, ..self.config }, ..self }
    }

    /// Packs so many samples at a time: more fill rows better, and fewer mix more; by default a 32nd of all, 512 at least and
    /// 8 Ki at most.
    #[must_use]
    pub fn window(self, n_samples: usize) -> Self {
        Self { config: PackConfig { window: Some(n_samples), ..self.config }, ..self }
    }

    /// Says which task or source a sample belongs to, from 0; every sample is read once for it when the batches are built.
    ///
    /// A row has samples of any; how they are mixed is said by [`Self::task_mix`].
    #[must_use]
    pub fn tasks(self, task: impl Fn(&I) -> u16 + Send + Sync + 'static) -> Self {
        Self { tasks: Some(Arc::new(task)), ..self }
    }

    /// Mixes the tasks so: in wanted shares of the samples, which every stretch of rows has, until one has no more.
    #[must_use]
    pub fn task_mix(self, mix: TaskMix) -> Self {
        Self { mix, ..self }
    }

    /// Draws as many samples as there are with replacement, each in proportion to its weight, in the order of the dataset.
    #[must_use]
    pub fn weights(self, weights: Vec<f64>) -> Self {
        Self { weights: Some(weights), ..self }
    }

    /// Reads with so many threads, one row each at a time; 1 by default. The batches are the same for any number.
    #[must_use]
    pub fn workers(self, n_workers: usize) -> Self {
        Self { workers: n_workers, ..self }
    }

    /// Reads ahead until so much is held on the host, and two steps at most; 64 MiB by default.
    ///
    /// The size of a sample is counted as [`Self::item_size`] says; the step that is trained with is not counted.
    #[must_use]
    pub fn read_ahead(self, bytes: Bytes) -> Self {
        Self { read_ahead: bytes, ..self }
    }

    /// Says how many bytes a sample holds on the host; its own size and 4 bytes for each of its positions by default.
    #[must_use]
    pub fn item_size(mut self, size: impl Fn(&I) -> usize + Send + Sync + 'static) -> Self {
        self.samples.size = Some(Arc::new(size));
        self
    }

    /// Says what a loss is a mean over: how many a row has. Its filled positions by default.
    ///
    /// A step in several parts then has the gradient of the mean over all of them.
    #[must_use]
    pub fn units(self, units: impl Fn(&Row<I>) -> usize + Send + Sync + 'static) -> Self {
        Self { units: Arc::new(units), ..self }
    }

    /// Says how many rows a batch has, so that a batcher that loses some is an error.
    #[must_use]
    pub fn rows(self, rows: impl Fn(&O) -> usize + Send + Sync + 'static) -> Self {
        Self { rows: Some(Arc::new(rows)), ..self }
    }

    /// Learns how many positions the samples take.
    ///
    /// # Errors
    ///
    /// [`BatchesError::NoSamples`], [`BatchesError::BelowOne`] of a setting, [`BatchesError::Cost`] of a sample,
    /// [`BatchesError::CostCount`], [`BatchesError::Sampler`] where what is wanted cannot be planned, such as a sample that is
    /// longer than a row, and [`BatchesError::Read`] or [`BatchesError::ReadPanicked`] when a sample cannot be read.
    pub fn build(self) -> Result<Batches<Row<I>, O>, BatchesError> {
        let Self { samples, batcher, costs, tasks, weights, mix, step, config, workers, read_ahead, units, rows } =
            self;
        if samples.dataset.is_empty() {
            return Err(BatchesError::NoSamples);
        }
        step.check()?;
        if workers == 0 {
            return Err(BatchesError::BelowOne { key: "workers" });
        }
        let Columns { lengths, tasks } = costs.columns(&*samples.dataset, tasks.as_ref(), false, workers)?;
        let table = Table::try_new(lengths, tasks, weights, None)?;
        let range = 0..table.n_samples();
        let items = Items {
            supply: Box::new(InRows { samples, row_len: config.row_len }),
            units: Some(units),
            workers,
            read_ahead,
            step,
            layout: Layout::Packed(config, mix),
            table,
        };
        Ok(Batches { data: Arc::new(Data::try_new(Arc::new(items), range)?), batcher, rows })
    }
}
