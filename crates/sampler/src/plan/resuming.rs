//! What a stream holds again after it was interrupted.

use std::collections::BTreeMap;

use plimsoll_types::Bytes;

use super::pending::Pending;
use super::stream::StreamPlanner;
use super::streamed::{Planned, StreamSample};
use crate::{CapacityRule, SamplerError};

/// The pending samples of a position, as they come back.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Resuming<const AXES: usize> {
    pending: Pending<AXES>,
    /// What became of each, in the order of the position.
    slots: Vec<Slot<AXES>>,
    /// The places of those that are missing, by id.
    missing: BTreeMap<u64, Vec<usize>>,
    /// Whether the stream had ended.
    pub(super) finished: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Slot<const AXES: usize> {
    Missing,
    Held(StreamSample<AXES>),
    LeftOut,
}

impl<const AXES: usize> Resuming<AXES> {
    pub(super) fn new(pending: Pending<AXES>, finished: bool) -> Self {
        let mut missing = BTreeMap::<_, Vec<_>>::new();
        for (place, id) in pending.in_order().iter().enumerate() {
            missing.entry(*id).or_default().push(place);
        }
        Self { slots: vec![Slot::Missing; pending.len()], pending, missing, finished }
    }

    pub(super) fn push(&mut self, sample: StreamSample<AXES>) -> Result<(), SamplerError> {
        let n_missing = self.missing.values().map(Vec::len).sum::<usize>() as u64;
        let place = self.take(sample.id).ok_or(SamplerError::NotPending { id: sample.id, n_missing })?;
        self.slots[place] = Slot::Held(sample);
        Ok(())
    }

    fn take(&mut self, id: u64) -> Option<usize> {
        let places = self.missing.get_mut(&id)?;
        let place = places.pop();
        if places.is_empty() {
            self.missing.remove(&id);
        }
        place
    }

    pub(super) fn held(&self) -> (usize, Bytes) {
        let held = self.slots.iter().filter_map(|slot| if let Slot::Held(sample) = slot { Some(sample) } else { None });
        (held.clone().count(), held.map(|sample| sample.bytes).sum())
    }

    /// What a position of now holds: what this one did, without what was left out.
    pub(super) fn pending(&self) -> Pending<AXES> {
        let of = |(id, slot): (&u64, &Slot<AXES>)| (*slot != Slot::LeftOut).then_some(*id);
        let mut ids = self.pending.in_order().iter().zip(&self.slots);
        let batches: Vec<_> = self
            .pending
            .batches()
            .iter()
            .map(|batch| (batch.cell, ids.by_ref().take(batch.n as usize).filter_map(of).collect::<Vec<_>>()))
            .filter(|(_, ids)| !ids.is_empty())
            .collect();
        Pending::new(batches.into_iter(), ids.filter_map(of))
    }
}

impl<R: CapacityRule<AXES>, const AXES: usize> StreamPlanner<R, AXES> {
    /// The samples of a position that have not come yet, in growing order.
    pub fn missing(&self) -> impl Iterator<Item = u64> {
        self.resuming.iter().flat_map(|it| &it.missing).flat_map(|(id, places)| places.iter().map(|_| *id))
    }

    /// Goes on without a sample of a position, which cannot be read any more say; says whether it was missing.
    ///
    /// # Errors
    ///
    /// [`SamplerError::Oversize`] when it was the last one missing, and another does not fit even alone by now.
    pub fn leave_out(&mut self, id: u64) -> Result<bool, SamplerError> {
        let Some(resuming) = &mut self.resuming else { return Ok(false) };
        let Some(place) = resuming.take(id) else { return Ok(false) };
        resuming.slots[place] = Slot::LeftOut;
        self.rebuild()?;
        Ok(true)
    }

    /// Puts the samples of a position where they were, once all of them are there.
    pub(super) fn rebuild(&mut self) -> Result<(), SamplerError> {
        let Some(resuming) = self.resuming.take_if(|it| it.missing.is_empty()) else { return Ok(()) };
        let held = |slot| if let Slot::Held(sample) = slot { Some(sample) } else { None };
        let mut slots = resuming.slots.into_iter();
        for batch in resuming.pending.batches() {
            let samples: Vec<_> = slots.by_ref().take(batch.n as usize).filter_map(held).collect();
            if !samples.is_empty() {
                let planned = Planned::new(samples, batch.cell, self.config.seed);
                self.n_ready += planned.samples.len();
                self.ready_bytes = self.ready_bytes.saturating_add(planned.bytes());
                self.ready.push_back(planned);
            }
        }
        self.waiting = slots.filter_map(held).collect();
        self.finished = resuming.finished;
        self.refit()
    }
}
