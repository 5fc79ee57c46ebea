//! What every probe can say.

use plimsoll_types::{Bytes, MemoryReading, StepShape};

use crate::ProbeError;

/// Measures the memory of one device.
///
/// Measure a step like this: [`reset_peak`](Self::reset_peak), run the step, [`read`](Self::read), and only then, if at
/// all, [`cleanup`](Self::cleanup).
pub trait Probe: Send {
    /// Returns the device's name, for people: the kind, and what the device calls itself.
    fn name(&self) -> String;

    /// Measures the memory now.
    ///
    /// # Errors
    ///
    /// [`ProbeError::Driver`] when the device does not answer.
    fn read(&self) -> Result<MemoryReading, ProbeError>;

    /// Hears what will run below the next high-water mark: no device has a use for it, but one that is made to fail has.
    fn announce(&mut self, _shape: StepShape) {}

    /// Starts a new high-water mark.
    ///
    /// # Errors
    ///
    /// [`ProbeError::Driver`] when the device does not answer.
    fn reset_peak(&mut self) -> Result<(), ProbeError>;

    /// Whether `peak` is the true high-water mark since the last reset, and not merely what is reserved.
    fn has_exact_peak(&self) -> bool;

    /// Returns how much memory this program may hold on the device: what is there, less what others hold.
    ///
    /// # Errors
    ///
    /// [`ProbeError::CapacityUnknown`] when nothing tells, [`ProbeError::Driver`] when the device does not answer.
    fn capacity(&self) -> Result<Bytes, ProbeError>;

    /// Returns the largest single allocation that the device can serve, however much is free.
    ///
    /// # Errors
    ///
    /// Those of [`capacity`](Self::capacity).
    fn largest_allocation(&self) -> Result<Bytes, ProbeError>;

    /// Returns to the device what is reserved and not in use.
    ///
    /// # Errors
    ///
    /// [`ProbeError::CleanupRefused`] when the allocator cannot do so now.
    fn cleanup(&mut self) -> Result<(), ProbeError>;

    /// Refuses from now on what would make this program hold more than the device has left for it, and no more than `most`
    /// or what a user has set; with `None` what a user has set does not count.
    ///
    /// A device that refuses by itself needs no line: nothing happens there.
    ///
    /// # Errors
    ///
    /// Those of [`capacity`](Self::capacity).
    fn draw_line(&mut self, _most: Option<Bytes>) -> Result<(), ProbeError> {
        Ok(())
    }

    /// Returns what other processes hold of the device's memory, where that is known.
    fn held_by_others(&self) -> Option<Bytes> {
        None
    }

    /// Returns the largest single allocation: since the last [`reset_peak`](Self::reset_peak) where peaks are exact, and
    /// so far elsewhere.
    fn largest_taken(&self) -> Option<Bytes> {
        None
    }
}

impl<P: Probe + ?Sized> Probe for Box<P> {
    fn draw_line(&mut self, most: Option<Bytes>) -> Result<(), ProbeError> {
        (**self).draw_line(most)
    }

    fn held_by_others(&self) -> Option<Bytes> {
        (**self).held_by_others()
    }

    fn largest_taken(&self) -> Option<Bytes> {
        (**self).largest_taken()
    }

    fn name(&self) -> String {
        (**self).name()
    }

    fn read(&self) -> Result<MemoryReading, ProbeError> {
        (**self).read()
    }

    fn announce(&mut self, shape: StepShape) {
        (**self).announce(shape);
    }

    fn reset_peak(&mut self) -> Result<(), ProbeError> {
        (**self).reset_peak()
    }

    fn has_exact_peak(&self) -> bool {
        (**self).has_exact_peak()
    }

    fn capacity(&self) -> Result<Bytes, ProbeError> {
        (**self).capacity()
    }

    fn largest_allocation(&self) -> Result<Bytes, ProbeError> {
        (**self).largest_allocation()
    }

    fn cleanup(&mut self) -> Result<(), ProbeError> {
        (**self).cleanup()
    }
}
