//! Burn's data loader.

use std::sync::{Arc, Mutex};

use burn::data::dataloader::{DataLoader, DataLoaderIterator};
use burn::tensor::Device;

use super::batched::{Batched, Running};
use super::place::{Place, lock};
use super::{Batches, BatchesError, Limits, Position};

/// Burn's data loader over the samples of [`Batches`]; [`Batches::loader`] makes one.
///
/// A batch is made when it is asked for, on the thread that asks, so that the device holds none but that one.
/// It has as many samples as fit by then, and as an optimizer step at most: samples of one step that do not fit at once
/// come in batches of much the same size, those that cost most first.
/// Each iterator begins the next epoch, the first one epoch 0, unless [`Self::seek`] or [`Self::reset`] says otherwise.
pub struct BatchLoader<I, O> {
    /// A slice of nothing has none.
    batches: Option<Placed<I, O>>,
    limits: Arc<dyn Limits>,
    device: Device,
}

/// Samples, and where whoever shares them stands.
type Placed<I, O> = (Batches<I, O>, Arc<Mutex<Place>>);

impl<I: Send + 'static, O: 'static> BatchLoader<I, O> {
    /// Begins with this epoch.
    pub(super) fn new(batches: Option<Batches<I, O>>, limits: Arc<dyn Limits>, device: &Device, epoch: usize) -> Self {
        let begun = |batches: Batches<I, O>| {
            let place = Arc::new(Place::at(batches.data.start(epoch, true)));
            (batches, place)
        };
        Self { batches: batches.map(begun), limits, device: device.clone() }
    }

    /// Where the next batch begins; `None` for a slice of nothing.
    pub fn position(&self) -> Option<Position> {
        self.batches.as_ref().map(|(_, place)| lock(place).position.clone())
    }

    /// Lets the next iterator begin where a position was taken; it has what was left of that epoch.
    ///
    /// # Errors
    ///
    /// [`BatchesError::Sampler`] when the position was taken with other costs, another seed or another size,
    /// [`BatchesError::OtherPosition`] when it was taken of an epoch of steps.
    pub fn seek(&self, position: &Position) -> Result<(), BatchesError> {
        if let Some((batches, place)) = &self.batches {
            let next = batches.data.resume(position, true)?;
            lock(place).go_to(next);
        }
        Ok(())
    }

    /// Lets the next iterator begin this epoch, from 0.
    pub fn reset(&self, epoch: usize) {
        if let Some((batches, place)) = &self.batches {
            lock(place).go_to(batches.data.start(epoch, true));
        }
    }

    /// The epoch that the next iterator begins with.
    fn next_epoch(&self) -> usize {
        self.batches.as_ref().map_or(0, |(_, place)| lock(place).next.position.epoch())
    }
}

impl<I: Send + 'static, O: 'static> DataLoader<O> for BatchLoader<I, O> {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<O> + 'a> {
        let begin = |(batches, place): &'a Placed<I, O>| {
            let mut now = lock(place);
            let following = batches.data.start(now.next.position.epoch() + 1, true);
            let start = std::mem::replace(&mut now.next, following);
            now.position = start.position.clone();
            Running::new(batches, place, &*self.limits, &self.device, start)
        };
        Box::new(Batched { running: self.batches.as_ref().map(begin) })
    }

    fn num_items(&self) -> usize {
        self.batches.as_ref().map_or(0, |(batches, _)| batches.n_samples())
    }

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<O>> {
        // It stands where this one does: a strategy of Burn's moves a loader to its device, and goes on with that.
        let batches = self.batches.as_ref().map(|(batches, place)| (batches.clone(), Arc::clone(place)));
        Arc::new(Self { batches, limits: Arc::clone(&self.limits), device: device.clone() })
    }

    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<O>> {
        let batches = self.batches.as_ref().and_then(|(batches, _)| batches.slice(start..end));
        Arc::new(Self::new(batches, Arc::clone(&self.limits), &self.device, self.next_epoch()))
    }
}
