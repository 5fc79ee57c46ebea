//! The items of a dataset, or of a range of it, and their order.

use std::ops::Range;
use std::sync::Arc;

use plimsoll_sampler::{PackConfig, PackError, Piece, PlanConfig, PlanError, SamplerError, TaskMix};
use plimsoll_types::{Bytes, Extent};

use super::error::BatchesError;
use super::group::StepOf;
use super::order::{Next, Order, Planning, packed};
use super::position::Position;
use super::supply::{Held, OfItem, Supply};
use super::table::Table;

/// How items are planned and read.
pub(super) struct Items<I> {
    pub(super) supply: Box<dyn Supply<I>>,
    pub(super) units: Option<OfItem<I>>,
    pub(super) workers: usize,
    pub(super) read_ahead: Bytes,
    pub(super) step: StepOf,
    pub(super) layout: Layout,
    pub(super) table: Table,
}

/// How samples make items.
pub(super) enum Layout {
    /// Each is one.
    Padded {
        /// The most that a group may be padded to on each axis.
        most: Option<Vec<u64>>,
        plan: PlanConfig<1>,
    },
    /// Those of a row are one.
    Packed(PackConfig, TaskMix),
}

/// Where an epoch begins.
#[derive(Clone)]
pub(super) struct Start {
    pub(super) steps: Box<dyn Order>,
    pub(super) position: Position,
}

/// Samples that lie side by side among those that take part.
pub(super) struct Data<I> {
    pub(super) items: Arc<Items<I>>,
    /// The first of them.
    pub(super) first: usize,
    n_samples: usize,
    /// Before the first step.
    steps: Box<dyn Order>,
    /// Before the first batch of a loader, of as many samples as a step.
    batches: Box<dyn Order>,
    /// Items of an epoch: samples, in which those of small tasks may come again, or about so many rows.
    n_items: usize,
}

impl<I> Items<I> {
    /// Plans the samples from one place of the table to another, in steps of so much.
    fn planned(&self, range: &Range<usize>, step: StepOf) -> Result<(Box<dyn Order>, usize), BatchesError> {
        let table = &self.table;
        let planned = match &self.layout {
            Layout::Padded { most, plan } => {
                let planning = Planning { step, most: most.as_deref(), plan };
                match table.n_axes() {
                    1 => planning.order(table.samples::<1>(range)?),
                    2 => planning.order(table.samples::<2>(range)?),
                    _ => planning.order(table.samples::<3>(range)?),
                }
            }
            Layout::Packed(config, mix) => packed(table.samples::<1>(range)?, step.size_of_rows(), *config, mix),
        };
        planned.map_err(|error| self.by_index(error, range.start))
    }

    /// Names a sample by its index in the dataset, where an error names it by its place from `first` on.
    fn by_index(&self, error: BatchesError, first: usize) -> BatchesError {
        let index = |id: u64| self.table.index_of(first + usize::try_from(id).unwrap_or(usize::MAX)) as u64;
        match error {
            BatchesError::Sampler(SamplerError::Plan(PlanError::Oversize { id, axis, length, limit })) => {
                PlanError::Oversize { id: index(id), axis, length, limit }.into()
            }
            BatchesError::Sampler(SamplerError::Pack(PackError::BeyondRow { id, length, row_len, limit })) => {
                PackError::BeyondRow { id: index(id), length, row_len, limit }.into()
            }
            error => error,
        }
    }

    const fn drops_last(&self) -> bool {
        matches!(&self.layout, Layout::Padded { plan: PlanConfig { drop_last: true, .. }, .. })
    }
}

impl<I> Data<I> {
    /// Takes the samples from one place of the table to another.
    pub(super) fn try_new(items: Arc<Items<I>>, range: Range<usize>) -> Result<Self, BatchesError> {
        let (steps, n_items) = items.planned(&range, items.step)?;
        let (batches, _) = items.planned(&range, items.step.in_one_group())?;
        let (first, n_samples) = (range.start, range.len());
        let data = Self { items, first, n_samples, steps, batches, n_items };
        let has_none = |of: &dyn Order, is_of_loader| data.is_left_out(&of.copied().next_step(), is_of_loader);
        if data.items.drops_last() && (has_none(&*data.steps, false) || has_none(&*data.batches, true)) {
            return Err(BatchesError::DropsAll { n_samples: data.n_samples() });
        }
        Ok(data)
    }

    /// Whether a step, or a batch of a loader, is what is left of an epoch, where that is left out.
    pub(super) fn is_left_out(&self, step: &Next, is_of_loader: bool) -> bool {
        let Next { span, units, ends_epoch, .. } = step;
        let is_whole = !units.is_empty() && (is_of_loader || self.items.step.size().is_whole(span));
        self.items.drops_last() && *ends_epoch && !is_whole
    }

    /// The samples from one index of these to another.
    pub(super) fn slice(&self, range: Range<usize>) -> Result<Self, BatchesError> {
        Self::try_new(Arc::clone(&self.items), self.first + range.start..self.first + range.end)
    }

    /// Reads what one item is made of.
    pub(super) fn item(&self, unit: &[Piece]) -> Result<Held<I>, BatchesError> {
        self.items.supply.item(unit, &self.items.table, self.first)
    }

    /// The index in the dataset of an item, or of the first sample of a row.
    pub(super) fn index_of(&self, unit: &[Piece]) -> usize {
        self.items.table.index_of(self.first + unit[0].id as usize)
    }

    /// What an item extends to along each axis.
    pub(super) fn extent(&self, unit: &[Piece]) -> Extent {
        match &self.items.layout {
            Layout::Padded { .. } => self.items.table.extent(self.first + unit[0].id as usize),
            Layout::Packed(config, _) => Extent::new(config.row_len),
        }
    }

    /// What the batches of a loader have a multiple of.
    pub(super) fn multiple_of(&self) -> usize {
        match &self.items.layout {
            Layout::Padded { plan, .. } => plan.multiple_of as usize,
            Layout::Packed(..) => 1,
        }
    }

    /// Items of an epoch.
    pub(super) const fn n_items(&self) -> usize {
        self.n_items
    }

    pub(super) const fn n_samples(&self) -> usize {
        self.n_samples
    }

    /// The most items that a position may have behind it; rows of another epoch may be more, and are counted by their own position.
    fn most_taken(&self) -> usize {
        match &self.items.layout {
            Layout::Padded { .. } => self.n_items - 1,
            Layout::Packed(..) => usize::MAX,
        }
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
        position.check(self.first, self.most_taken(), is_of_loader)?;
        let mut steps = self.start(0, is_of_loader).steps;
        steps.go_back(&position.step)?;
        Ok(Start { steps, position: position.clone() })
    }
}
