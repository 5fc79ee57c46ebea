//! A probe that sees faults.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use plimsoll_probe::{Probe, ProbeError};
use plimsoll_types::{Bytes, MemoryReading, StepShape};

use crate::faults::Faults;
use crate::list::Kind;

/// Readings between the start of a micro-batch and the end of the optimizer's step, that one included: its peak, its
/// peak with what accumulating took, and the optimizer's.
const READINGS: u64 = 3;

/// Measures what is there, and what the faults add to it.
pub(crate) struct FaultyProbe {
    inner: Box<dyn Probe>,
    faults: Arc<Faults>,
}

impl FaultyProbe {
    pub(crate) fn new(inner: Box<dyn Probe>, faults: Arc<Faults>) -> Self {
        Self { inner, faults }
    }
}

impl Probe for FaultyProbe {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn read(&self) -> Result<MemoryReading, ProbeError> {
        let mut reading = self.inner.read()?;
        let mut list = self.faults.list();
        reading.peak = reading.peak.saturating_add(list.excess);
        if self.faults.is_validating.load(SeqCst) {
            return Ok(reading);
        }
        list.readings += 1;
        if let Some(offset) = list.offset {
            for value in [&mut reading.in_use, &mut reading.reserved, &mut reading.peak] {
                *value = value.saturating_add(offset);
            }
        }
        let at = list.parts;
        if list.readings == READINGS && list.take(at, |it| *it == Kind::OomOptimizer, 0).is_some() {
            reading.peak = self.inner.capacity()?.saturating_add(Bytes(1));
        }
        Ok(reading)
    }

    fn announce(&mut self, shape: StepShape) {
        self.faults.list().announced = shape.samples;
        self.inner.announce(shape);
    }

    fn reset_peak(&mut self) -> Result<(), ProbeError> {
        self.inner.reset_peak()?;
        let in_use = self.inner.read()?.in_use;
        let capacity = self.inner.capacity()?;
        let is_training = !self.faults.is_validating.load(SeqCst);
        let mut list = self.faults.list();
        // What is read next is not the optimizer's.
        list.readings = READINGS;
        list.excess = Bytes::ZERO;
        // One sample alone cannot be divided: it waits for a larger part.
        let comes = is_training && 1 < std::mem::take(&mut list.announced);
        // Others hold all that is left: whatever the micro-batch takes is too much, and teaches the truth of its need.
        let comes = comes && list.is_due(list.parts, |it| *it == Kind::Oom);
        list.offset = comes.then(|| capacity.saturating_sub(in_use));
        Ok(())
    }

    fn has_exact_peak(&self) -> bool {
        self.inner.has_exact_peak()
    }

    fn capacity(&self) -> Result<Bytes, ProbeError> {
        let capacity = self.inner.capacity()?;
        let mut list = self.faults.list();
        list.capacity_readings += 1;
        let at = list.capacity_readings;
        if let Some(Kind::CapacityFalls { share, steps }) =
            list.take(at, |it| matches!(it, Kind::CapacityFalls { .. }), 0)
        {
            list.fallen = Some((share, steps));
        }
        let Some((share, steps)) = list.fallen else { return Ok(capacity) };
        list.fallen = Some((share, steps - 1)).filter(|_| 1 < steps);
        Ok(Bytes::from_f64_ceil(capacity.as_f64() * share))
    }

    fn largest_allocation(&self) -> Result<Bytes, ProbeError> {
        self.inner.largest_allocation()
    }

    fn cleanup(&mut self) -> Result<(), ProbeError> {
        self.inner.cleanup()
    }

    /// Draws it where it would be without the faults: they are no less memory, they only read so.
    fn draw_line(&mut self, most: Option<Bytes>) -> Result<(), ProbeError> {
        self.inner.draw_line(most)
    }

    fn held_by_others(&self) -> Option<Bytes> {
        self.inner.held_by_others()
    }

    fn largest_taken(&self) -> Option<Bytes> {
        self.inner.largest_taken()
    }
}
