//! One of several Flex devices of a program.

use plimsoll_types::{Bytes, MemoryReading};

use crate::limits::left;
use crate::sharing::Sharing;
use crate::{Compartment, DeviceKind, HeapCounters, HeapProbe, Probe, ProbeError};

/// Reads what the threads of one [`Compartment`] hold of this program's heap; exact, with a peak of its own that can be reset.
///
/// It may be opened and asked on any thread: what counts is which threads have entered the compartment.
#[derive(Debug)]
pub(crate) struct CompartmentProbe {
    heap: HeapProbe,
    compartment: Compartment,
    sharing: Sharing,
}

impl CompartmentProbe {
    /// Opens a compartment of the heap of the running program.
    ///
    /// # Errors
    ///
    /// Those of [`HeapProbe::try_new`].
    pub(crate) fn try_new(compartment: Compartment, sharing: Sharing) -> Result<Self, ProbeError> {
        Ok(Self { heap: HeapProbe::try_new()?, compartment, sharing })
    }
}

impl Probe for CompartmentProbe {
    /// All are called the same: what one needs for a step, each does.
    fn name(&self) -> String {
        format!("{} (compartment of the heap of this program)", DeviceKind::Flex)
    }

    fn read(&self) -> Result<MemoryReading, ProbeError> {
        Ok(self.compartment.read())
    }

    fn reset_peak(&mut self) -> Result<(), ProbeError> {
        self.compartment.reset_peak();
        Ok(())
    }

    fn has_exact_peak(&self) -> bool {
        true
    }

    /// Returns its part of what others leave of the machine, and the program beside its compartments.
    fn capacity(&self) -> Result<Bytes, ProbeError> {
        let all = self.heap.capacity()?;
        let held = Bytes(HeapCounters::of_program().steady() as u64);
        Ok(self.sharing.part_of(left(all, held.saturating_sub(Compartment::all_hold()))))
    }

    /// Returns the capacity: a heap has no other bound.
    fn largest_allocation(&self) -> Result<Bytes, ProbeError> {
        self.capacity()
    }

    /// Does nothing: what the program frees is no longer counted.
    fn cleanup(&mut self) -> Result<(), ProbeError> {
        Ok(())
    }

    /// Draws the program's line at what the device has for all of it, wherever the compartment's own would be: a block that
    /// is refused ends the program, and with it the work of all others. What passes the own capacity shows in the peak.
    fn draw_line(&mut self, most: Option<Bytes>) -> Result<(), ProbeError> {
        self.heap.draw_line(most.map(|_| Bytes::MAX))
    }

    fn held_by_others(&self) -> Option<Bytes> {
        self.heap.held_by_others()
    }

    fn largest_taken(&self) -> Option<Bytes> {
        Some(self.compartment.largest())
    }
}
