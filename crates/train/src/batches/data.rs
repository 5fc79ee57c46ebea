//! The samples of a dataset, or of a range of it, and their order.

use std::ops::Range;
use std::sync::Arc;

use burn::data::dataset::Dataset;
use plimsoll_sampler::{PlanConfig, PlanError, SamplerError};
use plimsoll_types::{Bytes, Extent};

use super::costs::{guarded, read};
use super::error::BatchesError;
use super::group::StepOf;
use super::order::{Next, Order, Planning};
use super::position::Position;
use super::table::Table;

/// A length or a size of an item.
pub(super) type OfItem<I> = Arc<dyn Fn(&I) -> usize + Send + Sync>;

/// How samples are read.
pub(super) struct Samples<I> {
    pub(super) dataset: Arc<dyn Dataset<I>>,
    pub(super) size: Option<OfItem<I>>,
    pub(super) units: Option<OfItem<I>>,
    pub(super) workers: usize,
    pub(super) read_ahead: Bytes,
    pub(super) step: StepOf,
    /// The most that a group may be padded to on each axis.
    pub(super) most: Option<Vec<u64>>,
    pub(super) table: Table,
    pub(super) plan: PlanConfig<1>,
}

/// An item on the host, and how much it holds.
pub(super) struct Held<I> {
    pub(super) item: I,
    pub(super) bytes: Bytes,
}

impl<I> Samples<I> {
    pub(super) fn read(&self, sample: usize, cost: u32) -> Result<Held<I>, BatchesError> {
        let item = read(&*self.dataset, sample)?;
        let bytes = match &self.size {
            Some(size) => guarded(sample, || size(&item))?,
            None => size_of::<I>() + size_of::<f32>() * cost as usize,
        };
        Ok(Held { item, bytes: Bytes(bytes as u64) })
    }
}

/// Where an epoch begins.
#[derive(Clone)]
pub(super) struct Start {
    pub(super) steps: Box<dyn Order>,
    pub(super) position: Position,
}

/// Samples that lie side by side among those that take part.
pub(super) struct Data<I> {
    pub(super) samples: Arc<Samples<I>>,
    /// The first of them.
    pub(super) first: usize,
    n_samples: usize,
    /// Before the first step.
    steps: Box<dyn Order>,
    /// Before the first batch of a loader, of as many samples as a step.
    batches: Box<dyn Order>,
    /// Samples of an epoch, in which those of small tasks may come again.
    n_planned: usize,
}

impl<I> Samples<I> {
    /// Plans the samples from one place of the table to another, in steps of so much.
    fn planned(&self, range: &Range<usize>, step: StepOf) -> Result<(Box<dyn Order>, usize), BatchesError> {
        let (table, planning) = (&self.table, Planning { step, most: self.most.as_deref(), plan: &self.plan });
        let planned = match table.n_axes() {
            1 => planning.order(table.samples::<1>(range)?),
            2 => planning.order(table.samples::<2>(range)?),
            _ => planning.order(table.samples::<3>(range)?),
        };
        planned.map_err(|error| self.by_index(error, range.start))
    }

    /// Names a sample by its index in the dataset, where an error names it by its place from `first` on.
    fn by_index(&self, error: BatchesError, first: usize) -> BatchesError {
        match error {
            BatchesError::Sampler(SamplerError::Plan(PlanError::Oversize { id, axis, length, limit })) => {
                let at = first + usize::try_from(id).unwrap_or(usize::MAX);
                let id = self.table.index_of(at) as u64;
                PlanError::Oversize { id, axis, length, limit }.into()
            }
            error => error,
        }
    }
}

impl<I> Data<I> {
    /// Takes the samples from one place of the table to another.
    pub(super) fn try_new(samples: Arc<Samples<I>>, range: Range<usize>) -> Result<Self, BatchesError> {
        let (steps, n_planned) = samples.planned(&range, samples.step)?;
        let (batches, _) = samples.planned(&range, samples.step.in_one_group())?;
        let (first, n_samples) = (range.start, range.len());
        let data = Self { samples, first, n_samples, steps, batches, n_planned };
        let has_none = |of: &dyn Order, is_of_loader| data.is_left_out(&of.copied().next_step(), is_of_loader);
        if data.samples.plan.drop_last && (has_none(&*data.steps, false) || has_none(&*data.batches, true)) {
            return Err(BatchesError::DropsAll { n_samples: data.n_samples() });
        }
        Ok(data)
    }

    /// Whether a step, or a batch of a loader, is what is left of an epoch, where that is left out.
    pub(super) fn is_left_out(&self, step: &Next, is_of_loader: bool) -> bool {
        let Next { span, ids, ends_epoch, .. } = step;
        let StepOf { size, groups, .. } = self.samples.step;
        let is_less = if is_of_loader || groups == 1 {
            ids.is_empty()
        } else {
            // It ends where the sum of the epoch reaches the next multiple.
            span.start / size as u64 == span.end / size as u64
        };
        self.samples.plan.drop_last && *ends_epoch && is_less
    }

    /// The samples from one index of these to another.
    pub(super) fn slice(&self, range: Range<usize>) -> Result<Self, BatchesError> {
        Self::try_new(Arc::clone(&self.samples), self.first + range.start..self.first + range.end)
    }

    /// The index in the dataset of a sample, counted from the first.
    pub(super) fn index_of(&self, id: usize) -> usize {
        self.samples.table.index_of(self.first + id)
    }

    /// What a sample costs, counted from the first.
    pub(super) fn cost(&self, id: usize) -> u32 {
        self.samples.table.cost(self.first + id)
    }

    /// What a sample extends to along each axis, counted from the first.
    pub(super) fn extent(&self, id: usize) -> Extent {
        self.samples.table.extent(self.first + id)
    }

    pub(super) const fn n_samples(&self) -> usize {
        self.n_samples
    }

    /// The steps of an epoch, or the batches of a loader.
    pub(super) fn start(&self, epoch: usize, is_of_loader: bool) -> Start {
        let mut steps = if is_of_loader { &self.batches } else { &self.steps }.clone();
        steps.start(epoch as u64);
        let position = Position { step: steps.position(), n_taken: 0, of_batch: 0, first: self.first, is_of_loader };
        Start { steps, position }
    }

    /// The same from a position on.
    pub(super) fn resume(&self, position: &Position, is_of_loader: bool) -> Result<Start, BatchesError> {
        position.check(self.first, self.n_planned, is_of_loader)?;
        let mut steps = self.start(0, is_of_loader).steps;
        steps.go_back(&position.step)?;
        Ok(Start { steps, position: position.clone() })
    }
}
