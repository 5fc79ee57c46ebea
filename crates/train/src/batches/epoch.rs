//! An epoch, step by step.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;

use plimsoll_types::{Bytes, Extent};

use super::data::{Data, Start};
use super::error::BatchesError;
use super::order::{Next, Order, Unit};
use super::position::Position;
use super::supply::Held;
use crate::ahead::{Ahead, Room};
use crate::loader::LoaderError;

/// Steps that are read ahead, beside the one that is trained with.
const STEPS_AHEAD: usize = 2;

/// The samples of one optimizer step, or of one batch of a loader, on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct StepItems<I> {
    /// What the dataset gave, in groups of much the same cost, the group that costs most first; or [rows](super::Row) of that.
    pub items: Vec<I>,
    /// What each costs; the product of its lengths where it has several axes, and of a row its length.
    pub costs: Vec<u32>,
    /// What each extends to along each axis.
    pub extents: Vec<Extent>,
    /// How much each counts in the mean that a loss is, where that is said.
    pub units: Option<Vec<u64>>,
    /// Their indices in the dataset; of a row, that of its first sample.
    pub indices: Vec<usize>,
    /// The epoch, from 0.
    pub epoch: usize,
    /// Where the next step begins, of the next epoch after the last one.
    pub position: Position,
}

impl<I> StepItems<I> {
    /// Accepts samples of one axis, by which alone whoever asks can tell what they need.
    ///
    /// # Errors
    ///
    /// [`BatchesError::SeveralAxes`].
    pub fn check_one_axis(&self) -> Result<(), BatchesError> {
        let n_axes = self.extents.first().map_or(1, Extent::n_axes);
        if n_axes == 1 { Ok(()) } else { Err(BatchesError::SeveralAxes { n_axes }) }
    }
}

impl<I> Deref for StepItems<I> {
    type Target = [I];

    fn deref(&self) -> &[I] {
        &self.items
    }
}

/// The steps of an epoch, each sample in one of them, read ahead on the host.
///
/// It ends with its first error, before the step that it belongs to; a [`Position`] begins with that step again.
pub struct Epoch<I> {
    data: Arc<Data<I>>,
    steps: Box<dyn Order>,
    position: Position,
    planned: VecDeque<Planned>,
    /// Items of planned steps that are not asked for.
    unasked: VecDeque<Unit>,
    ahead: Ahead<Unit, Result<Held<I>, BatchesError>>,
    /// Whether all steps of the epoch are planned.
    is_planned: bool,
}

struct Planned {
    epoch: u64,
    /// From the first sample of the data.
    units: Vec<Unit>,
    after: Position,
}

impl<I: Send + 'static> Epoch<I> {
    /// Begins to read; of the batch that a position lies in, all samples come again.
    pub(super) fn new(data: &Arc<Data<I>>, start: Start) -> Self {
        let Start { steps, position } = start;
        let n_taken = position.n_taken.saturating_sub(position.of_batch);
        let position = Position { n_taken, of_batch: 0, ..position };
        let own = Arc::clone(data);
        let read = move |unit: Unit| own.item(&unit);
        let room = Room { bytes: data.items.read_ahead, values: u64::MAX };
        let ahead = Ahead::start(data.items.workers, room, bytes, read);
        let (planned, unasked) = (VecDeque::new(), VecDeque::new());
        let mut epoch = Self { data: Arc::clone(data), steps, position, planned, unasked, ahead, is_planned: false };
        epoch.plan_ahead();
        epoch.ask_ahead();
        epoch
    }

    /// Where the next step begins.
    pub const fn position(&self) -> &Position {
        &self.position
    }

    fn plan_ahead(&mut self) {
        while !self.is_planned && self.planned.len() <= STEPS_AHEAD {
            let step = self.steps.next_step();
            if self.data.is_left_out(&step, self.position.is_of_loader) {
                self.is_planned = true;
                // Nobody begins again before a step that does not come.
                let last = self.planned.back_mut().map_or(&mut self.position, |it| &mut it.after);
                *last = Position { step: self.steps.position(), n_taken: 0, ..last.clone() };
                return;
            }
            let Next { epoch, units, ends_epoch, .. } = step;
            self.is_planned = ends_epoch;
            let before = self.planned.back().map_or(&self.position, |it| &it.after);
            let n_taken = if ends_epoch { 0 } else { before.n_taken.saturating_add(units.len()) };
            let after = Position { step: self.steps.position(), n_taken, ..before.clone() };
            self.unasked.extend(units.iter().cloned());
            self.planned.push_back(Planned { epoch, units, after });
        }
    }

    fn ask_ahead(&mut self) {
        while self.ahead.wants_more()
            && let Some(unit) = self.unasked.pop_front()
        {
            self.ahead.ask(unit);
        }
    }

    fn take(&mut self) -> Result<I, BatchesError> {
        self.ask_ahead();
        let held = self.ahead.take().map_err(|error| match error {
            LoaderError::WorkerPanicked(message) => BatchesError::Workers(message),
            error => BatchesError::Workers(error.to_string()),
        })?;
        Ok(held?.item)
    }

    fn collect(&mut self, Planned { epoch, units: of, after }: Planned) -> Result<StepItems<I>, BatchesError> {
        let items = of.iter().map(|_| self.take()).collect::<Result<Vec<I>, _>>()?;
        self.ask_ahead();
        self.position = after.clone();
        let extents: Vec<_> = of.iter().map(|unit| self.data.extent(unit)).collect();
        let costs = extents.iter().map(|it| u32::try_from(it.positions()).unwrap_or(u32::MAX)).collect();
        let indices = of.iter().map(|unit| self.data.index_of(unit)).collect();
        let units = self.data.items.units.as_deref();
        let units = units.map(|units| items.iter().map(|it| units(it) as u64).collect());
        let epoch = usize::try_from(epoch).unwrap_or(usize::MAX);
        Ok(StepItems { items, costs, extents, units, indices, epoch, position: after })
    }
}

impl<I: Send + 'static> Iterator for Epoch<I> {
    type Item = Result<StepItems<I>, BatchesError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.plan_ahead();
        let step = self.planned.pop_front()?;
        Some(self.collect(step).inspect_err(|_| {
            self.is_planned = true;
            self.planned.clear();
        }))
    }
}

fn bytes<I>(read: &Result<Held<I>, BatchesError>) -> Bytes {
    read.as_ref().map_or(Bytes::ZERO, |it| it.bytes)
}
