//! From a stream to its position, and back: putting the samples where they were.

use super::config::Oversize;
use super::identity::Version;
use super::pending::Pending;
use super::resuming::Resuming;
use super::stream::StreamPlanner;
use super::stream_position::StreamPosition;
use super::streamed::{Planned, StreamSample};
use crate::{CapacityRule, StreamError};

impl<R: CapacityRule<AXES>, const AXES: usize> StreamPlanner<R, AXES> {
    /// Where the stream stands; [`StreamPlanner::resume`] goes on there.
    pub fn position(&self) -> StreamPosition<AXES> {
        self.position_with(std::iter::empty())
    }

    /// The same when batches that were taken are taken back.
    pub(super) fn position_with(&self, taken: impl Iterator<Item = ([u32; AXES], Vec<u64>)>) -> StreamPosition<AXES> {
        if let Some(resuming) = &self.resuming {
            let pending = resuming.position.pending.only(|id| resuming.may_have(id));
            return StreamPosition { pending, ..resuming.position.clone() };
        }
        let planned = |batch: &Planned<AXES>| (batch.cell, batch.ids().collect());
        let batches = taken.chain(self.ready.iter().map(planned));
        let pending = Pending::new(batches, self.waiting.iter().map(|sample| sample.id));
        let Self { epoch, n_windows, finished, .. } = *self;
        StreamPosition { version: Version, epoch, pending, of: self.identity, n_windows, finished }
    }

    /// The samples that are in no batch that was taken.
    pub fn pending(&self) -> impl Iterator<Item = u64> {
        let held = self.ready.iter().flat_map(Planned::ids).chain(self.waiting.iter().map(|sample| sample.id));
        held.chain(self.resuming.iter().flat_map(|it| it.missing.iter().chain(it.held.keys())).copied())
    }

    /// Goes on where a position was taken, from an empty buffer, once its pending samples are pushed again, in any order
    /// and before all others: the batches are those of a stream that was not interrupted.
    ///
    /// Under another rule it goes on as if the rule had changed there.
    ///
    /// # Errors
    ///
    /// [`crate::PositionError::OtherPlan`] when the position was taken with another configuration.
    pub fn resume(mut self, position: &StreamPosition<AXES>) -> Result<Self, StreamError> {
        position.of.check(self.identity)?;
        (self.epoch, self.n_windows) = (position.epoch, position.n_windows);
        if position.pending.is_empty() {
            self.finished = position.finished;
        } else {
            self.resuming = Some(Box::new(Resuming::new(position.clone(), position.pending.ids())));
        }
        Ok(self)
    }

    /// The samples of a position that have not come yet, in growing order.
    pub fn missing(&self) -> impl Iterator<Item = u64> {
        self.resuming.iter().flat_map(|it| &it.missing).copied()
    }

    /// Goes on without a sample of a position, which cannot be read any more say; says whether it was missing.
    ///
    /// # Errors
    ///
    /// [`crate::PlanError::Oversize`] when it was the last one missing, and another does not fit even alone by now.
    pub fn leave_out(&mut self, id: u64) -> Result<bool, StreamError> {
        let was_missing = self.resuming.as_mut().is_some_and(|it| it.missing.remove(&id));
        self.rebuild()?;
        Ok(was_missing)
    }

    /// Puts the samples of a position where they were, once all of them are there.
    pub(super) fn rebuild(&mut self) -> Result<(), StreamError> {
        let Some(resuming) = self.resuming.take_if(|it| it.missing.is_empty()) else { return Ok(()) };
        let Resuming { position, held, .. } = *resuming;
        let of = |ids: &[u64]| -> Vec<_> { ids.iter().filter_map(|id| held.get(id)).copied().collect() };
        let mut ids = position.pending.in_order();
        for batch in position.pending.batches() {
            let (of_batch, rest) = ids.split_at(batch.n as usize);
            ids = rest;
            let is_longer = |sample: &StreamSample<AXES>| sample.lengths.iter().zip(batch.cell).any(|(a, b)| *a > b);
            let may_stay =
                |sample: &StreamSample<AXES>| self.config.oversize == Oversize::Truncate || !is_longer(sample);
            // A sample that is longer by now has no place in its batch.
            let (stay, go): (Vec<_>, Vec<_>) = of(of_batch).into_iter().partition(may_stay);
            self.waiting.extend(go);
            let planned = Planned::new(stay, batch.cell, self.config.seed);
            if !planned.samples.is_empty() {
                self.n_ready += planned.samples.len();
                self.ready_bytes = self.ready_bytes.saturating_add(planned.bytes());
                self.ready.push_back(planned);
            }
        }
        self.waiting.extend(of(ids));
        self.finished = position.finished;
        self.refit()
    }
}
