//! The samples of a dataset, or of a range of it, and their order.

use std::ops::Range;
use std::sync::Arc;

use burn::data::dataset::Dataset;
use plimsoll_sampler::{BatchPlanner, CapacityRule, PlanConfig, PlannedStep, SampleIndex, StepPlanner, StepSize};
use plimsoll_types::Bytes;

use super::costs::{guarded, read};
use super::error::BatchesError;
use super::position::Position;
use super::table::Table;

/// A length or a size of an item.
pub(super) type OfItem<I> = Arc<dyn Fn(&I) -> usize + Send + Sync>;

/// What an optimizer step takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepOf {
    pub(super) size: usize,
    /// Whether that counts what samples cost, and not samples.
    pub(super) is_cost: bool,
    /// Groups of samples that cost much the same.
    pub(super) groups: usize,
}

impl StepOf {
    pub(super) fn check(self) -> Result<(), BatchesError> {
        let key = if self.is_cost { "effective_cost" } else { "effective_batch" };
        let bad = if self.size == 0 { Some(key) } else { (self.groups == 0).then_some("groups_per_step") };
        bad.map_or(Ok(()), |key| Err(BatchesError::BelowOne { key }))
    }

    fn in_one_group(self) -> Self {
        Self { groups: 1, ..self }
    }

    /// A group that makes a whole step stays whole: cut at another place, a step would have samples of two groups.
    fn size(self) -> StepSize {
        if self.groups == 1 {
            return StepSize::Batch;
        }
        if self.is_cost {
            return StepSize::Positions(self.size as u64);
        }
        StepSize::Samples(u32::try_from(self.size).unwrap_or(u32::MAX))
    }
}

/// A group of a step, or a whole step, of samples that cost much the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Group {
    size: u64,
    is_cost: bool,
}

impl Group {
    fn of(StepOf { size, is_cost, groups }: StepOf) -> Self {
        Self { size: size.div_ceil(groups) as u64, is_cost }
    }
}

impl CapacityRule<1> for Group {
    fn capacity(&self, [cost]: [u32; 1]) -> u32 {
        let n_samples = if self.is_cost { self.size.div_ceil(cost.max(1).into()) } else { self.size };
        u32::try_from(n_samples).unwrap_or(u32::MAX)
    }
}

/// How samples are read.
pub(super) struct Samples<I> {
    pub(super) dataset: Arc<dyn Dataset<I>>,
    pub(super) size: Option<OfItem<I>>,
    pub(super) units: Option<OfItem<I>>,
    pub(super) workers: usize,
    pub(super) read_ahead: Bytes,
    pub(super) step: StepOf,
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
    pub(super) steps: StepPlanner<Group>,
    pub(super) position: Position,
}

/// Samples that lie side by side among those that take part.
pub(super) struct Data<I> {
    pub(super) samples: Arc<Samples<I>>,
    /// The first of them.
    pub(super) first: usize,
    index: SampleIndex<1>,
    /// Before the first step.
    steps: StepPlanner<Group>,
    /// Before the first batch of a loader, of as many samples as a step.
    batches: StepPlanner<Group>,
    /// Samples of an epoch, in which those of small tasks may come again.
    n_planned: usize,
}

impl<I> Data<I> {
    /// Takes the samples from one place of the table to another.
    pub(super) fn try_new(samples: Arc<Samples<I>>, range: Range<usize>) -> Result<Self, BatchesError> {
        let (index, first) = (samples.table.samples(range.clone())?, range.start);
        let planner = |step: StepOf| {
            // A step of several batches is told to be whole by what it takes.
            let drop_last = samples.plan.drop_last && step.size() == StepSize::Batch;
            let config = PlanConfig { drop_last, ..samples.plan.clone() };
            BatchPlanner::try_new(index.clone(), Group::of(step), config)
        };
        let (of_steps, of_loader) = (planner(samples.step)?, planner(samples.step.in_one_group())?);
        let n_planned = of_steps.n_planned();
        let steps = StepPlanner::try_new(&of_steps, samples.step.size())?;
        let batches = StepPlanner::try_new(&of_loader, samples.step.in_one_group().size())?;
        let data = Self { samples, first, index, steps, batches, n_planned };
        let has_none = |of: &StepPlanner<Group>, is_of_loader| data.is_left_out(&of.clone().next_step(), is_of_loader);
        if data.samples.plan.drop_last && (has_none(&data.steps, false) || has_none(&data.batches, true)) {
            return Err(BatchesError::DropsAll { n_samples: data.n_samples() });
        }
        Ok(data)
    }

    /// Whether a step, or a batch of a loader, is what is left of an epoch, where that is left out.
    pub(super) fn is_left_out(&self, step: &PlannedStep, is_of_loader: bool) -> bool {
        let PlannedStep { span, batches, ends_epoch, .. } = step;
        let StepOf { size, groups, .. } = self.samples.step;
        let is_less = if is_of_loader || groups == 1 {
            batches.is_empty()
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
        self.index.get(id as u64).map_or(0, |[cost]| cost)
    }

    pub(super) fn n_samples(&self) -> usize {
        self.index.n_samples()
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
        let size = self.samples.step;
        let mut steps = self.start(0, is_of_loader).steps;
        steps.go_back(Group::of(if is_of_loader { size.in_one_group() } else { size }), &position.step)?;
        Ok(Start { steps, position: position.clone() })
    }
}
