//! What is wanted of batches.

use std::sync::Arc;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataset::Dataset;
use plimsoll_sampler::{Admit, PlanConfig, TaskMix};
use plimsoll_types::Bytes;

use super::costs::{Columns, Costs, TaskOf};
use super::data::{Data, OfItem, Samples};
use super::error::BatchesError;
use super::group::StepOf;
use super::table::Table;
use super::{Batches, Rows};

/// Host memory for what is read ahead: little beside a model, and a second of decoded pictures.
const READ_AHEAD: Bytes = Bytes::mib(64);

/// Makes batches of a program's own dataset with its own batcher.
///
/// The items of a dataset lie on the host; `batcher` takes some of them to a device.
///
/// # Example
///
/// ```
/// # use plimsoll_train as plimsoll;
/// use std::sync::Arc;
///
/// use burn::data::dataloader::DataLoader;
/// use burn::data::dataloader::batcher::Batcher;
/// use burn::data::dataset::InMemDataset;
/// use burn::tensor::{Device, Int, Tensor};
///
/// /// Pads numbered words with zeros: `[n_texts, longest]`.
/// struct Pad;
///
/// impl Batcher<Vec<i32>, Tensor<2, Int>> for Pad {
///     fn batch(&self, texts: Vec<Vec<i32>>, device: &Device) -> Tensor<2, Int> {
///         let (n_texts, longest) = (texts.len(), texts.iter().map(Vec::len).max().unwrap_or(0));
///         let padded = texts.into_iter().flat_map(|it| it.into_iter().chain(std::iter::repeat(0)).take(longest));
///         Tensor::<1, Int>::from_ints(&*padded.collect::<Vec<_>>(), device).reshape([n_texts, longest])
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let texts = InMemDataset::new((1..=100).map(|n_words| vec![7; n_words % 20 + 1]).collect());
/// let batches = plimsoll::batches(texts, Pad).cost(|text| text.len()).effective_batch(32).workers(2).build()?;
///
/// // Optimizer steps on the host, for a loop of one's own; a checkpoint keeps the position.
/// let mut epoch = batches.epoch(0);
/// let step = epoch.next().expect("there are samples")?;
/// assert_eq!(step.items.len(), step.position.n_taken());
/// assert_eq!(batches.resume(&step.position)?.count(), epoch.count());
///
/// // Batches on a device, for any loop that takes Burn's data loader: here, as many as have 160 words with the padding.
/// let most = |n_words: u32| 160 / n_words as usize;
/// let loader: Arc<dyn DataLoader<_>> = batches.loader(most, &Device::flex());
/// let mut n_texts = 0;
/// for batch in loader.iter() {
///     let [n, n_words] = batch?.dims();
///     assert!(n * n_words <= 160);
///     n_texts += n;
/// }
/// assert_eq!(n_texts, loader.num_items());
/// # Ok(())
/// # }
/// ```
pub fn batches<I: Send + 'static, O: 'static>(
    dataset: impl Dataset<I> + 'static,
    batcher: impl Batcher<I, O> + 'static,
) -> BatchesBuilder<I, O> {
    BatchesBuilder {
        dataset: Arc::new(dataset),
        batcher: Arc::new(batcher),
        costs: Costs::One,
        tasks: None,
        weights: None,
        admit: None,
        step: StepOf { size: 32, is_cost: false, groups: 1 },
        most: None,
        plan: PlanConfig::default(),
        workers: 1,
        read_ahead: READ_AHEAD,
        size: None,
        units: None,
        rows: None,
    }
}

/// What is wanted of batches; see [`batches()`].
///
/// Texts of two sources, half of each, as long as the smaller one lasts; in eights, without those that have no words or more than
/// a thousand:
///
/// ```
/// # use plimsoll_train as plimsoll;
/// # use burn::data::dataloader::batcher::Batcher;
/// # use burn::data::dataset::InMemDataset;
/// # use burn::tensor::Device;
/// # use plimsoll_sampler::{Admit, EpochEnd, Oversize, TaskMix};
/// # struct Pad;
/// # impl Batcher<(bool, Vec<i32>), usize> for Pad {
/// #     fn batch(&self, texts: Vec<(bool, Vec<i32>)>, _device: &Device) -> usize { texts.len() }
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let texts = InMemDataset::new((0..1000).map(|at| (at % 4 == 0, vec![7; at % 1010])).collect());
/// let halves = TaskMix { shares: Some(vec![0.5, 0.5]), ends: EpochEnd::FirstExhausted, ..TaskMix::default() };
/// let admit = Admit { longest: 1000, too_short: Oversize::Skip, too_long: Oversize::Skip, ..Admit::default() };
/// let batches = plimsoll::batches(texts, Pad)
///     .cost(|(_, words)| words.len())
///     .admit(admit)
///     .tasks(|(is_chat, _)| u16::from(*is_chat))
///     .task_mix(halves)
///     .effective_batch(32)
///     .multiple_of(8)
///     .drop_last()
///     .build()?;
/// assert_eq!(batches.left_out().empty, 1);
/// # assert!(batches.epoch(0).all(|step| step.is_ok_and(|it| it.len() % 8 == 0)));
/// # Ok(())
/// # }
/// ```
///
/// Pairs of a source and a target text, each side padded on its own, no batch to more than 2 048 words of sources or 1 024 of
/// targets:
///
/// ```
/// # use plimsoll_train as plimsoll;
/// # use burn::data::dataloader::DataLoader;
/// # use burn::data::dataloader::batcher::Batcher;
/// # use burn::data::dataset::InMemDataset;
/// # use burn::tensor::Device;
/// # struct Pad;
/// # impl Batcher<[Vec<i32>; 2], [usize; 2]> for Pad {
/// #     fn batch(&self, pairs: Vec<[Vec<i32>; 2]>, _device: &Device) -> [usize; 2] {
/// #         [0, 1].map(|side| pairs.len() * pairs.iter().map(|it| it[side].len()).max().unwrap_or(0))
/// #     }
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pairs = InMemDataset::new((0..1000).map(|at| [vec![7; at % 101 + 1], vec![7; at % 37 + 1]]).collect());
/// let batches = plimsoll::batches(pairs, Pad)
///     .lengths(|[source, target]| [source.len(), target.len()])
///     .max_padded([2048, 1024])
///     .effective_batch(64)
///     .build()?;
/// # let all: Vec<_> = batches.loader(64, &Device::flex()).iter().collect::<Result<_, _>>()?;
/// # assert!(all.len() > 15 && all.iter().all(|[source, target]| *source <= 2048 && *target <= 1024));
/// # Ok(())
/// # }
/// ```
pub struct BatchesBuilder<I, O> {
    dataset: Arc<dyn Dataset<I>>,
    batcher: Arc<dyn Batcher<I, O>>,
    costs: Costs<I>,
    tasks: Option<TaskOf<I>>,
    weights: Option<Vec<f64>>,
    admit: Option<Admit>,
    step: StepOf,
    most: Option<Vec<usize>>,
    plan: PlanConfig<1>,
    workers: usize,
    read_ahead: Bytes,
    size: Option<OfItem<I>>,
    units: Option<OfItem<I>>,
    rows: Option<Rows<O>>,
}

impl<I: Send + 'static, O: 'static> BatchesBuilder<I, O> {
    /// Says what a sample costs: the length that it is padded to in a batch of its own, such as its tokens, from 1.
    ///
    /// Every sample is read once for it, by the workers, when the batches are built; each costs 1 unless told otherwise.
    #[must_use]
    pub fn cost(self, cost: impl Fn(&I) -> usize + Send + Sync + 'static) -> Self {
        self.lengths(move |it| [cost(it)])
    }

    /// Says how long a sample is along each of several axes, three at most, that a batch is padded along each on its own, such as
    /// the words of a source and of a target; each is 1 or more.
    ///
    /// What it costs is their product then, and samples come together that are alike on every axis.
    /// Every sample is read once for it, by the workers, when the batches are built.
    #[must_use]
    pub fn lengths<const AXES: usize>(self, lengths: impl Fn(&I) -> [usize; AXES] + Send + Sync + 'static) -> Self {
        Self { costs: Costs::along(lengths), ..self }
    }

    /// Pads no group, and so no batch of a loader, to more than this on each axis: samples times the longest of them.
    ///
    /// What makes a step otherwise, such as [`Self::effective_batch`], is filled as far as that allows.
    #[doc(alias = "max_tokens")]
    #[must_use]
    pub fn max_padded<const AXES: usize>(self, most: [usize; AXES]) -> Self {
        Self { most: Some(most.to_vec()), ..self }
    }

    /// Says what each sample costs, in the order of the dataset, so that none is read for it.
    #[must_use]
    pub fn costs(self, costs: Vec<usize>) -> Self {
        Self { costs: Costs::Column(costs), ..self }
    }

    /// Fills an optimizer step with so many samples, 32 by default; one of an epoch's steps takes what is left.
    #[must_use]
    pub fn effective_batch(self, n_samples: usize) -> Self {
        Self { step: StepOf { size: n_samples, is_cost: false, ..self.step }, ..self }
    }

    /// Fills an optimizer step with as many samples as cost so much together, such as its tokens.
    ///
    /// The padding counts, but not where a step has [several groups](Self::groups_per_step), which cost so much on average.
    #[must_use]
    pub fn effective_cost(self, cost: usize) -> Self {
        Self { step: StepOf { size: cost, is_cost: true, ..self.step }, ..self }
    }

    /// Makes an optimizer step of at least about so many groups of samples that cost much the same; 1 by default, which
    /// pads least, and several mix lengths.
    #[must_use]
    pub fn groups_per_step(self, n_groups: usize) -> Self {
        Self { step: StepOf { groups: n_groups, ..self.step }, ..self }
    }

    /// Draws the order of every epoch from this; 0 by default.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { plan: PlanConfig { seed, ..self.plan }, ..self }
    }

    /// Gives every group a multiple of so many samples, but for what is left of an epoch and where a step ends; 1 by default.
    #[doc(alias = "pad_to_multiple_of")]
    #[must_use]
    pub fn multiple_of(self, n_samples: u32) -> Self {
        Self { plan: PlanConfig { multiple_of: n_samples, ..self.plan }, ..self }
    }

    /// Leaves out what is left of an epoch and makes no whole step, rather than a smaller step. With [`Self::multiple_of`] and one
    /// group, that is what is left beyond a multiple: the rest is a smaller step.
    #[must_use]
    pub fn drop_last(self) -> Self {
        Self { plan: PlanConfig { drop_last: true, ..self.plan }, ..self }
    }

    /// Says which task a sample belongs to, from 0; every sample is read once for it when the batches are built.
    ///
    /// How they are mixed is said by [`Self::task_mix`].
    #[must_use]
    pub fn tasks(self, task: impl Fn(&I) -> u16 + Send + Sync + 'static) -> Self {
        Self { tasks: Some(Arc::new(task)), ..self }
    }

    /// Mixes the tasks so: in wanted shares, until one has no more samples, or apart.
    #[must_use]
    pub fn task_mix(self, mix: TaskMix) -> Self {
        Self { plan: PlanConfig { tasks: mix, ..self.plan }, ..self }
    }

    /// Says which costs take part, from 0; what lies outside is refused, left out with a count
    /// ([`Batches::left_out`]), or counted as the greatest cost, which the batcher then has to cut it to.
    #[must_use]
    pub fn admit(self, admit: Admit) -> Self {
        Self { admit: Some(admit), ..self }
    }

    /// Draws as many samples as there are with replacement, each in proportion to its weight, in the order of the dataset.
    #[must_use]
    pub fn weights(self, weights: Vec<f64>) -> Self {
        Self { weights: Some(weights), ..self }
    }

    /// Sorts so many samples at a time by what they cost: more pad less, and fewer mix more; all of them by default, and
    /// 16 Ki of more than a quarter of a million.
    #[must_use]
    pub fn window(self, n_samples: usize) -> Self {
        Self { plan: PlanConfig { window: Some(n_samples), ..self.plan }, ..self }
    }

    /// Reads with so many threads, one sample each at a time; 1 by default. The batches are the same for any number.
    #[must_use]
    pub fn workers(self, n_workers: usize) -> Self {
        Self { workers: n_workers, ..self }
    }

    /// Reads ahead until so much is held on the host, and two steps at most; 64 MiB by default.
    ///
    /// The size of an item is counted as [`Self::item_size`] says; the step that is trained with is not counted.
    #[must_use]
    pub fn read_ahead(self, bytes: Bytes) -> Self {
        Self { read_ahead: bytes, ..self }
    }

    /// Says how many bytes an item holds on the host; its own size and 4 bytes for each unit of its cost by default.
    #[must_use]
    pub fn item_size(self, size: impl Fn(&I) -> usize + Send + Sync + 'static) -> Self {
        Self { size: Some(Arc::new(size)), ..self }
    }

    /// Says what a loss is a mean over, such as the words to be guessed: how many a sample has. Each counts one by default, or
    /// its cost where a step is told so.
    ///
    /// A step in several parts then has the gradient of the mean over all of them.
    #[must_use]
    pub fn units(self, units: impl Fn(&I) -> usize + Send + Sync + 'static) -> Self {
        Self { units: Some(Arc::new(units)), ..self }
    }

    /// Says how many samples a batch has, so that a batcher that loses some is an error.
    #[must_use]
    pub fn rows(self, rows: impl Fn(&O) -> usize + Send + Sync + 'static) -> Self {
        Self { rows: Some(Arc::new(rows)), ..self }
    }

    /// Learns what the samples cost.
    ///
    /// # Errors
    ///
    /// [`BatchesError::NoSamples`], [`BatchesError::BelowOne`] of a setting, [`BatchesError::Cost`] of a sample,
    /// [`BatchesError::CostCount`], [`BatchesError::LimitCount`], [`BatchesError::AdmitOfAxes`], [`BatchesError::DropsAll`],
    /// [`BatchesError::Sampler`] where what is wanted cannot be planned, such as a sample above `max_padded`, and
    /// [`BatchesError::Read`] or [`BatchesError::ReadPanicked`] when a sample cannot be read.
    pub fn build(self) -> Result<Batches<I, O>, BatchesError> {
        let n_samples = self.dataset.len();
        if n_samples == 0 {
            return Err(BatchesError::NoSamples);
        }
        self.step.check()?;
        if self.workers == 0 {
            return Err(BatchesError::BelowOne { key: "workers" });
        }
        self.check_axes()?;
        let may_be_nothing = self.admit.is_some();
        let Columns { lengths, tasks } =
            self.costs.columns(&*self.dataset, self.tasks.as_ref(), may_be_nothing, self.workers)?;
        let table = Table::try_new(lengths, tasks, self.weights, self.admit)?;
        let range = 0..table.n_samples();
        let samples = Samples {
            dataset: self.dataset,
            size: self.size,
            units: self.units,
            workers: self.workers,
            read_ahead: self.read_ahead,
            step: self.step,
            most: self.most.map(|most| most.into_iter().map(|it| it as u64).collect()),
            table,
            plan: self.plan,
        };
        let data = Data::try_new(Arc::new(samples), range)?;
        Ok(Batches { data: Arc::new(data), batcher: self.batcher, rows: self.rows })
    }

    fn check_axes(&self) -> Result<(), BatchesError> {
        let n_axes = self.costs.n_axes();
        match &self.most {
            Some(most) if most.len() != n_axes => Err(BatchesError::LimitCount { n_limits: most.len(), n_axes }),
            Some(most) if most.contains(&0) => Err(BatchesError::BelowOne { key: "max_padded" }),
            _ if n_axes > 1 && self.admit.is_some() => Err(BatchesError::AdmitOfAxes { n_axes }),
            _ => Ok(()),
        }
    }
}
