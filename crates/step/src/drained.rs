//! Memory as it is once all that was asked of a device is under way.

use burn::tensor::Device;
use plimsoll_probe::{Probe, ProbeError};
use plimsoll_types::{Bytes, MemoryReading, StepShape};

/// Hands over what a device has been asked for before its memory is read or returned: with Burn's fusion, operations wait to
/// be fused with later ones, and hold nothing meanwhile, and what was dropped is still there.
///
/// What is fused ends here, so a rehearsal hands over where a step reads.
pub(crate) struct Drained {
    pub(crate) probe: Box<dyn Probe>,
    pub(crate) device: Device,
}

impl Drained {
    fn drain(&self) {
        // What could not be done carries the failure, and a read of what depends on it fails with it.
        drop(self.device.flush());
    }
}

impl Probe for Drained {
    fn name(&self) -> String {
        self.probe.name()
    }

    fn read(&self) -> Result<MemoryReading, ProbeError> {
        self.drain();
        self.probe.read()
    }

    fn announce(&mut self, shape: StepShape) {
        self.probe.announce(shape);
    }

    fn reset_peak(&mut self) -> Result<(), ProbeError> {
        self.drain();
        self.probe.reset_peak()
    }

    fn has_exact_peak(&self) -> bool {
        self.probe.has_exact_peak()
    }

    fn capacity(&self) -> Result<Bytes, ProbeError> {
        self.probe.capacity()
    }

    fn largest_allocation(&self) -> Result<Bytes, ProbeError> {
        self.probe.largest_allocation()
    }

    fn cleanup(&mut self) -> Result<(), ProbeError> {
        self.drain();
        self.probe.cleanup()
    }

    fn draw_line(&mut self, most: Option<Bytes>) -> Result<(), ProbeError> {
        self.probe.draw_line(most)
    }

    fn held_by_others(&self) -> Option<Bytes> {
        self.probe.held_by_others()
    }

    fn largest_taken(&self) -> Option<Bytes> {
        self.probe.largest_taken()
    }
}
