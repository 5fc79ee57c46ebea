//! A device that behaves like a smaller one.

use plimsoll_types::{Bytes, MemoryReading, StepShape};

use crate::{Probe, ProbeError};

/// A probe whose capacity is set by the user (`--capacity 2GiB`); everything else is measured as before.
///
/// The bytes are real, only the limit is set: whoever reads more than the capacity has run out of memory.
#[derive(Clone, Debug)]
pub struct CappedProbe<P> {
    inner: P,
    set: Bytes,
}

impl<P: Probe> CappedProbe<P> {
    /// Caps a device; one that does not know its own capacity takes any.
    ///
    /// # Errors
    ///
    /// [`ProbeError::CapacityTooLarge`] when the device has less than `set`, and the errors of [`Probe::capacity`].
    pub fn try_new(inner: P, set: Bytes) -> Result<Self, ProbeError> {
        match if_known(inner.capacity())? {
            Some(real) if real < set => Err(ProbeError::CapacityTooLarge { device: inner.name(), set, real }),
            _ => Ok(Self { inner, set }),
        }
    }
}

/// Takes a size that the device does not know for none.
fn if_known(size: Result<Bytes, ProbeError>) -> Result<Option<Bytes>, ProbeError> {
    match size {
        Ok(size) => Ok(Some(size)),
        Err(ProbeError::CapacityUnknown { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

impl<P: Probe> Probe for CappedProbe<P> {
    fn name(&self) -> String {
        format!("{}, capped at {}", self.inner.name(), self.set)
    }

    fn read(&self) -> Result<MemoryReading, ProbeError> {
        self.inner.read()
    }

    fn announce(&mut self, shape: StepShape) {
        self.inner.announce(shape);
    }

    fn reset_peak(&mut self) -> Result<(), ProbeError> {
        self.inner.reset_peak()
    }

    fn has_exact_peak(&self) -> bool {
        self.inner.has_exact_peak()
    }

    /// Returns what was set, or what the device has by now if that is less.
    fn capacity(&self) -> Result<Bytes, ProbeError> {
        Ok(if_known(self.inner.capacity())?.map_or(self.set, |real| real.min(self.set)))
    }

    fn largest_allocation(&self) -> Result<Bytes, ProbeError> {
        Ok(if_known(self.inner.largest_allocation())?.map_or(self.set, |real| real.min(self.set)))
    }

    fn cleanup(&mut self) -> Result<(), ProbeError> {
        self.inner.cleanup()
    }

    fn draw_line(&mut self, most: Option<Bytes>) -> Result<(), ProbeError> {
        self.inner.draw_line(most.map(|most| most.min(self.set)))
    }

    fn held_by_others(&self) -> Option<Bytes> {
        self.inner.held_by_others()
    }

    fn largest_taken(&self) -> Option<Bytes> {
        self.inner.largest_taken()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Card(Option<Bytes>);

    impl Probe for Card {
        fn name(&self) -> String {
            "card".into()
        }

        fn read(&self) -> Result<MemoryReading, ProbeError> {
            Ok(MemoryReading {
                in_use: Bytes(1),
                reserved: Bytes(2),
                peak: Bytes(3),
                page: Bytes::mib(2),
                packed: Bytes::ZERO,
            })
        }

        fn reset_peak(&mut self) -> Result<(), ProbeError> {
            Ok(())
        }

        fn has_exact_peak(&self) -> bool {
            false
        }

        fn capacity(&self) -> Result<Bytes, ProbeError> {
            self.0.ok_or_else(|| ProbeError::CapacityUnknown { device: self.name(), reason: "it is mute".into() })
        }

        fn largest_allocation(&self) -> Result<Bytes, ProbeError> {
            Ok(Bytes::gib(1))
        }

        fn cleanup(&mut self) -> Result<(), ProbeError> {
            Ok(())
        }
    }

    #[test]
    fn a_cap_makes_a_device_smaller() {
        let capped = CappedProbe::try_new(Card(Some(Bytes::gib(8))), Bytes::gib(2)).unwrap();
        assert_eq!(capped.capacity().unwrap(), Bytes::gib(2));
        assert_eq!(capped.largest_allocation().unwrap(), Bytes::gib(1));
        assert_eq!(capped.name(), "card, capped at 2.00 GiB");
        let read = capped.read().unwrap();
        assert_eq!((read.peak, read.page), (Bytes(3), Bytes::mib(2)));
    }

    #[test]
    fn a_cap_above_the_device_names_both_sizes() {
        let error = CappedProbe::try_new(Card(Some(Bytes::gib(8))), Bytes::gib(9)).unwrap_err();
        assert_eq!(error.to_string(), "cap card at 9.00 GiB: it has only 8.00 GiB");
    }

    #[test]
    fn a_device_that_shrinks_below_the_cap_says_so() {
        let mut capped = CappedProbe::try_new(Card(Some(Bytes::gib(8))), Bytes::gib(2)).unwrap();
        capped.inner.0 = Some(Bytes::gib(1));
        assert_eq!(capped.capacity().unwrap(), Bytes::gib(1));
    }

    #[test]
    fn a_device_that_does_not_know_its_capacity_takes_the_cap() {
        let capped = CappedProbe::try_new(Card(None), Bytes::gib(2)).unwrap();
        assert_eq!(capped.capacity().unwrap(), Bytes::gib(2));
    }
}
