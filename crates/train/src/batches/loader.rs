//! Burn's data loader.

use std::sync::Arc;

use burn::data::dataloader::{DataLoader, DataLoaderIterator};
use burn::tensor::Device;

use super::batched::{Batched, Running};
use super::part::{Part, Placed};
use super::place::lock;
use super::{Batches, BatchesError, Limits, Position};

/// Burn's data loader over the samples of [`Batches`]; [`Batches::loader`] makes one.
///
/// A batch is made when it is asked for, on the thread that asks, so that the device holds none but that one.
/// It has as many samples as fit by then, and as an optimizer step at most: samples of one step that do not fit at once
/// come in batches of much the same size, those that cost most first.
/// Each iterator begins the next epoch, the first one epoch 0, unless [`Self::seek`] or [`Self::reset`] says otherwise.
///
/// A slice that makes no batches, such as one of less than a whole step where that is left out, says so instead of its first batch.
pub struct BatchLoader<I, O> {
    part: Part<I, O>,
    limits: Arc<dyn Limits>,
    device: Device,
}

impl<I: Send + 'static, O: 'static> BatchLoader<I, O> {
    /// Begins with epoch 0.
    pub(super) fn new(batches: Batches<I, O>, limits: Arc<dyn Limits>, device: &Device) -> Self {
        Self { part: Part::All(Placed::at(batches, 0)), limits, device: device.clone() }
    }

    /// Where the next batch begins; `None` for a slice that has none.
    pub fn position(&self) -> Option<Position> {
        self.part.placed().map(|it| lock(&it.place).position.clone())
    }

    /// Lets the next iterator begin where a position was taken; it has what was left of that epoch.
    ///
    /// # Errors
    ///
    /// [`BatchesError::Sampler`] when the position was taken with other costs, another seed or another size,
    /// [`BatchesError::OtherPosition`] when it was taken of an epoch of steps, [`BatchesError::Slice`] where there are no
    /// batches to go on with.
    pub fn seek(&self, position: &Position) -> Result<(), BatchesError> {
        match &self.part {
            Part::All(Placed { batches, place }) => lock(place).go_to(batches.data.resume(position, true)?),
            Part::Nothing => {}
            Part::Refused(refusal) => return Err(refusal.error()),
        }
        Ok(())
    }

    /// Lets the next iterator begin this epoch, from 0.
    pub fn reset(&self, epoch: usize) {
        if let Part::All(Placed { batches, place }) = &self.part {
            lock(place).go_to(batches.data.start(epoch, true));
        }
    }
}

impl<I: Send + 'static, O: 'static> DataLoader<O> for BatchLoader<I, O> {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<O> + 'a> {
        let begin = |Placed { batches, place }: &'a Placed<I, O>| {
            let mut now = lock(place);
            let following = batches.data.start(now.next.position.epoch() + 1, true);
            let start = std::mem::replace(&mut now.next, following);
            now.position = start.position.clone();
            Running::new(batches, place, &*self.limits, &self.device, start)
        };
        Box::new(match &self.part {
            Part::All(placed) => Batched::Running(Box::new(begin(placed))),
            Part::Nothing => Batched::Over { n_samples: 0 },
            Part::Refused(refusal) => Batched::Refused(refusal.error(), refusal.n_samples()),
        })
    }

    fn num_items(&self) -> usize {
        match &self.part {
            Part::All(placed) => placed.batches.n_items(),
            Part::Nothing => 0,
            Part::Refused(refusal) => refusal.n_samples(),
        }
    }

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<O>> {
        // It stands where this one does: a strategy of Burn's moves a loader to its device, and goes on with that.
        Arc::new(Self { part: self.part.clone(), limits: Arc::clone(&self.limits), device: device.clone() })
    }

    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<O>> {
        let (limits, device) = (Arc::clone(&self.limits), self.device.clone());
        Arc::new(Self { part: self.part.slice(start..end), limits, device })
    }
}
