//! Where the batches of a step come from.

use std::borrow::Cow;
use std::cell::Cell;
use std::cmp::Reverse;
use std::ops::Range;

use burn::tensor::Device;
use plimsoll_train::{Batches, BatchesError, StepItems};

/// A program's own data, whatever its items are.
pub(crate) trait Source<O>: Send + Sync {
    /// Returns the number of samples of an epoch.
    fn n_samples(&self) -> usize;

    /// Returns the steps of an epoch, counted from 1 as Burn does.
    fn epoch(&self, epoch: usize) -> EpochSteps<'_, O, BatchesError>;
}

/// The steps of an epoch.
pub(crate) type EpochSteps<'a, O, E> = Box<dyn Iterator<Item = Result<StepBatches<'a, O>, E>> + 'a>;

impl<I: Clone + Send + 'static, O: 'static> Source<O> for Batches<I, O> {
    fn n_samples(&self) -> usize {
        self.n_items()
    }

    fn epoch(&self, epoch: usize) -> EpochSteps<'_, O, BatchesError> {
        let step = |items: StepItems<I>| {
            items.check_one_axis()?;
            Ok(StepBatches::of_items(self, items))
        };
        Box::new(Self::epoch(self, epoch.saturating_sub(1)).map(move |it| it.and_then(step)))
    }
}

/// What a step is made of.
pub(crate) enum StepBatches<'a, O> {
    /// Samples of these lengths, the longest first, with what each counts in a mean where that is said, their indices in the
    /// dataset, and what makes a batch of a range of them.
    Samples { lengths: Vec<u32>, units: Option<Vec<u64>>, indices: Vec<usize>, make: Box<Make<'a, O>> },
    /// One batch that is there, of so many samples.
    Whole { batch: Cell<Option<O>>, n_samples: usize },
}

type Make<'a, O> = dyn Fn(Range<usize>, &Device) -> Result<O, BatchesError> + 'a;

/// Why a part has no batch.
pub(crate) enum NoBatch {
    /// Making one has failed.
    Failed(BatchesError),
    /// There was one, which an attempt has used up.
    UsedUp,
}

impl<'a, O: 'static> StepBatches<'a, O> {
    fn of_items<I: Clone + Send + 'static>(batches: &'a Batches<I, O>, step: StepItems<I>) -> Self {
        let StepItems { items, costs: lengths, units, indices, .. } = step;
        let mut items: Vec<_> = lengths.into_iter().zip(indices.into_iter().zip(items)).enumerate().collect();
        // Those that are as long stay in order.
        items.sort_by_key(|(_, (length, _))| Reverse(*length));
        let units = units.map(|units| items.iter().map(|(at, _)| units[*at]).collect());
        let (lengths, items): (_, Vec<(usize, I)>) = items.into_iter().map(|(_, it)| it).unzip();
        let (indices, items): (Vec<_>, Vec<I>) = items.into_iter().unzip();
        let of = indices.clone();
        let make = move |part: Range<usize>, device: &Device| {
            let indices = of[part.clone()].to_vec();
            let batch = batches.batch(items[part].to_vec(), device);
            batch.map_err(|error| BatchesError::Batch { indices, error: Box::new(error) })
        };
        Self::Samples { lengths, units, indices, make: Box::new(make) }
    }

    pub(crate) fn whole(batch: O, n_samples: usize) -> Self {
        Self::Whole { batch: Cell::new(Some(batch)), n_samples }
    }

    /// Returns the index in the dataset and the length of a sample, where samples are known.
    pub(crate) fn sample(&self, at: usize) -> Option<(usize, u32)> {
        match self {
            Self::Samples { lengths, indices, .. } => Some((*indices.get(at)?, *lengths.get(at)?)),
            Self::Whole { .. } => None,
        }
    }

    /// Returns the length of each sample, as far as it is known.
    pub(crate) fn lengths(&self) -> Cow<'_, [u32]> {
        match self {
            Self::Samples { lengths, .. } => Cow::Borrowed(lengths),
            Self::Whole { n_samples, .. } => Cow::Owned(vec![1; *n_samples]),
        }
    }

    /// Returns what each sample counts in a mean, where that is said.
    pub(crate) fn units(&self) -> Option<&[u64]> {
        if let Self::Samples { units, .. } = self { units.as_deref() } else { None }
    }

    pub(crate) fn are_whole(&self) -> bool {
        matches!(self, Self::Whole { .. })
    }

    /// Makes the batch of a part.
    pub(crate) fn batch(&self, part: Range<usize>, device: &Device) -> Result<O, NoBatch> {
        match self {
            Self::Samples { make, .. } => make(part, device).map_err(NoBatch::Failed),
            Self::Whole { batch, .. } => batch.take().ok_or(NoBatch::UsedUp),
        }
    }
}
