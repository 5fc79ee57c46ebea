//! Burn's own `DataLoader` fed from the sampler alone: pairs of a source and a target text, each side padded on its own and
//! bounded on its own.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn::data::dataset::{Dataset, DatasetError, InMemDataset};
use burn::tensor::{Device, Int, Tensor};
use plimsoll_sampler::{BatchPlanner, EpochPlan, PaddedBudget, PlanConfig, SampleIndex, SamplerError};

/// A batch is padded to no more words than this, of the sources and of the targets.
pub(crate) const MAX_WORDS: [u64; 2] = [2_048, 1_024];

/// Numbered words of a source text and of its target.
pub(crate) type Pair = [Vec<i32>; 2];

/// Pairs of 4 to 67 source words and 2 to 34 target words.
pub(crate) fn pairs(n: usize) -> InMemDataset<Pair> {
    let words = |n: usize| (1..).take(n).collect();
    InMemDataset::new((0..n).map(|id| [words(4 + id * 7919 % 64), words(2 + id * 104_729 % 33)]).collect())
}

/// Pads both sides with zeros: `[n_pairs, longest source]` and `[n_pairs, longest target]`.
pub(crate) struct Pad;

impl Batcher<Pair, [Tensor<2, Int>; 2]> for Pad {
    fn batch(&self, pairs: Vec<Pair>, device: &Device) -> [Tensor<2, Int>; 2] {
        [0, 1].map(|side| {
            let longest = pairs.iter().map(|pair| pair[side].len()).max().unwrap_or(0);
            let padded =
                pairs.iter().flat_map(|pair| pair[side].iter().copied().chain(std::iter::repeat(0)).take(longest));
            Tensor::<1, Int>::from_ints(&*padded.collect::<Vec<_>>(), device).reshape([pairs.len(), longest])
        })
    }
}

/// Hands out the batches that a planner makes of a dataset, those of another epoch with each iterator.
pub(crate) struct Planned<I, O> {
    dataset: Arc<dyn Dataset<I>>,
    batcher: Arc<dyn Batcher<I, O>>,
    /// What is known of every sample of the dataset.
    lengths: [Arc<[u32]>; 2],
    /// The first sample that takes part.
    first: usize,
    planner: BatchPlanner<PaddedBudget<2>, 2>,
    next_epoch: Arc<AtomicU64>,
    device: Device,
}

impl<I: 'static, O: 'static> Planned<I, O> {
    pub(crate) fn try_new(
        dataset: impl Dataset<I> + 'static,
        batcher: impl Batcher<I, O> + 'static,
        lengths: impl Fn(&I) -> [usize; 2],
        device: &Device,
    ) -> Result<Self, Box<dyn Error>> {
        let mut axes = [Vec::new(), Vec::new()];
        for id in 0..dataset.len() {
            let of = lengths(&dataset.get(id)?);
            for (axis, length) in axes.iter_mut().zip(of) {
                axis.push(u32::try_from(length)?);
            }
        }
        let (lengths, dataset) = (axes.map(Arc::from), Arc::new(dataset));
        let planner = plan(&lengths, 0..dataset.len())?;
        let (batcher, next_epoch, device) = (Arc::new(batcher), Arc::default(), device.clone());
        Ok(Self { dataset, batcher, lengths, first: 0, planner, next_epoch, device })
    }
}

/// Plans some samples, by their lengths alone.
fn plan(
    lengths: &[Arc<[u32]>; 2],
    part: std::ops::Range<usize>,
) -> Result<BatchPlanner<PaddedBudget<2>, 2>, SamplerError> {
    let index = SampleIndex::try_new(lengths.each_ref().map(|axis| &axis[part.clone()]))?;
    Ok(BatchPlanner::try_new(index, PaddedBudget(MAX_WORDS), PlanConfig::default())?)
}

impl<I: 'static, O: 'static> DataLoader<O> for Planned<I, O> {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<O> + 'a> {
        let epoch = self.next_epoch.fetch_add(1, Ordering::Relaxed);
        Box::new(Batches { of: self, plan: self.planner.batches(epoch), n_done: 0 })
    }

    fn num_items(&self) -> usize {
        self.planner.n_planned()
    }

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<O>> {
        Arc::new(Self { device: device.clone(), ..self.clone() })
    }

    /// # Panics
    ///
    /// Where the part is empty.
    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<O>> {
        let part = self.first + start..self.first + end.min(self.num_items());
        let planner = plan(&self.lengths, part.clone()).expect("a part of samples that fit");
        Arc::new(Self { first: part.start, planner, next_epoch: Arc::default(), ..self.clone() })
    }
}

impl<I, O> Clone for Planned<I, O> {
    fn clone(&self) -> Self {
        Self {
            dataset: Arc::clone(&self.dataset),
            batcher: Arc::clone(&self.batcher),
            lengths: self.lengths.clone(),
            first: self.first,
            planner: self.planner.clone(),
            next_epoch: Arc::clone(&self.next_epoch),
            device: self.device.clone(),
        }
    }
}

/// The batches of an epoch.
struct Batches<'a, I, O> {
    of: &'a Planned<I, O>,
    plan: EpochPlan<PaddedBudget<2>, 2>,
    n_done: usize,
}

impl<I: 'static, O: 'static> Iterator for Batches<'_, I, O> {
    type Item = Result<O, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        let ids = self.plan.next()?.ids;
        self.n_done += ids.len();
        let get = |id: u64| self.of.dataset.get(self.of.first + usize::try_from(id).unwrap_or(usize::MAX));
        let items: Result<Vec<I>, _> = ids.into_iter().map(get).collect();
        Some(items.map(|items| self.of.batcher.batch(items, &self.of.device)))
    }
}

impl<I: 'static, O: 'static> DataLoaderIterator<O> for Batches<'_, I, O> {
    fn progress(&self) -> Progress {
        Progress::new(self.n_done, self.of.num_items(), Some("pairs".to_owned()))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::flex();
    let loader: Arc<dyn DataLoader<_>> =
        Arc::new(Planned::try_new(pairs(2_000), Pad, |pair| pair.each_ref().map(Vec::len), &device)?);
    for epoch in 0..2 {
        let (mut n_batches, mut n_words) = (0, [0; 2]);
        for batch in loader.iter() {
            for (n_words, side) in n_words.iter_mut().zip(batch?) {
                *n_words += side.shape().num_elements();
            }
            n_batches += 1;
        }
        println!("epoch {epoch}: {n_batches} batches, {n_words:?} words with the padding");
    }
    Ok(())
}
