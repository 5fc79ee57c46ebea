//! The heap of this program, where the Flex backend keeps its tensors.

use std::cell::Cell;
use std::hint::black_box;
use std::time::{Duration, Instant};

use plimsoll_types::{Bytes, MemoryReading};

use crate::limits::Limits;
use crate::{DeviceKind, HeapCounters, Host, Probe, ProbeError, holes};

const HEAP: &HeapCounters = HeapCounters::of_program();

/// What others leave may be as old as this: it takes some 50 µs to read, which steps of few ms would notice.
const MOST_AGE: Duration = Duration::from_millis(10);

/// The least time in which the memory of a machine can be filled, which is what it has over what it moves in a second: servers
/// take a second and more, a laptop a quarter of one.
const FILLED_IN: Duration = Duration::from_millis(125);

/// Reads what [`TrackingAllocator`](crate::TrackingAllocator) has counted; exact, with a peak that can be reset.
///
/// There is one heap in a program, so all heap probes share one peak.
/// What threads hold that count [beside](crate::count_beside) stands in a reading with the most that it was lately.
///
/// On a system that does not tell its memory only the capacity is missing, and [`CappedProbe`](crate::CappedProbe) sets
/// one.
#[derive(Debug)]
pub struct HeapProbe {
    limits: Option<Limits>,
    /// The most that is to be had below the line, whatever is left.
    most: Bytes,
    /// The capacity, and when it was read.
    recent: Cell<Option<(Bytes, Instant)>>,
}

impl HeapProbe {
    /// Opens the heap of the running program.
    ///
    /// From now on glibc keeps what the program gives back, up to a 64th of the machine's memory or 64 MiB for each thread: to take
    /// it from the system again costs a fault for each page. Under a control group's limit it is up to a 64th of that, in one heap.
    ///
    /// # Errors
    ///
    /// Those of [`try_on`](Self::try_on).
    pub fn try_new() -> Result<Self, ProbeError> {
        let probe = Self::try_on(&Host::new())?;
        if let Some(limits) = &probe.limits {
            match limits.of_groups()? {
                Some(limit) => holes::keep_few(limit),
                None => holes::keep_many(limits.total()),
            }
        }
        Ok(probe)
    }

    /// Opens the heap of the running program as if it ran on this machine.
    ///
    /// # Errors
    ///
    /// [`ProbeError::AllocatorNotInstalled`] when the program does not count its allocations, [`ProbeError::Io`] and
    /// [`ProbeError::Malformed`] when a file of the system is there that cannot be read.
    pub fn try_on(host: &Host) -> Result<Self, ProbeError> {
        if !allocations_are_counted() {
            return Err(ProbeError::AllocatorNotInstalled);
        }
        let limits = match Limits::open(host.root()) {
            Ok(limits) => Some(limits),
            Err(ProbeError::CapacityUnknown { .. }) => None,
            Err(error) => return Err(error),
        };
        Ok(Self { limits, most: Bytes::MAX, recent: Cell::new(None) })
    }
}

/// Returns for how long a capacity that was read holds: others must fill first what it has beyond the line.
fn holds_for(beyond: Bytes, total: Bytes) -> Duration {
    MOST_AGE.max(FILLED_IN.mul_f64(beyond.share_of(total)))
}

fn held() -> Bytes {
    Bytes(HEAP.current() as u64)
}

/// Whether a block that is surely held shows in the count.
fn allocations_are_counted() -> bool {
    let block = black_box(vec![0u8; 4096]);
    let counted = HEAP.current() >= block.len();
    drop(black_box(block));
    counted
}

impl Probe for HeapProbe {
    fn name(&self) -> String {
        format!("{} (heap of this program)", DeviceKind::Flex)
    }

    fn read(&self) -> Result<MemoryReading, ProbeError> {
        let in_use = HEAP.steady();
        // A block that is just being taken is in the count before it is in the peak.
        let peak = HEAP.peak().max(in_use);
        let [in_use, peak] = [in_use, peak].map(|it| Bytes(it as u64));
        Ok(MemoryReading { in_use, reserved: in_use, peak, page: Bytes::ZERO, packed: HEAP.packed().most() })
    }

    fn reset_peak(&mut self) -> Result<(), ProbeError> {
        HEAP.reset_peak();
        Ok(())
    }

    fn has_exact_peak(&self) -> bool {
        true
    }

    /// Returns what other processes leave of the machine's memory and of each control group's limit, as they were at most
    /// 10 ms ago; or longer, where what they left beyond the line cannot have been filled since.
    fn capacity(&self) -> Result<Bytes, ProbeError> {
        let total = self.limits.as_ref().map_or(Bytes::MAX, Limits::total);
        let holds = |capacity: Bytes| holds_for(capacity.saturating_sub(self.most), total);
        if let Some((capacity, _)) = self.recent.get().filter(|(capacity, at)| at.elapsed() < holds(*capacity)) {
            return Ok(capacity);
        }
        let limits = self.limits.as_ref().ok_or_else(|| ProbeError::CapacityUnknown {
            device: self.name(),
            reason: "this system does not say how much memory there is as Linux does".into(),
        })?;
        let capacity = limits.capacity(held())?;
        self.recent.set(Some((capacity, Instant::now())));
        Ok(capacity)
    }

    /// Returns the capacity: a heap has no other bound.
    fn largest_allocation(&self) -> Result<Bytes, ProbeError> {
        self.capacity()
    }

    /// Does nothing: what the program frees is no longer counted.
    fn cleanup(&mut self) -> Result<(), ProbeError> {
        Ok(())
    }

    /// Draws it where the heap of this program is counted; the program aborts at a block that passes it, unless it was
    /// ready to be refused.
    ///
    /// It is at the [capacity](Self::capacity) as that is when there is a `most`: before a step, and not after it. On a system
    /// that does not tell, only `most` counts.
    fn draw_line(&mut self, most: Option<Bytes>) -> Result<(), ProbeError> {
        self.most = most.unwrap_or(self.most);
        let known = self.recent.get().filter(|_| most.is_none());
        let left = match known.map_or_else(|| self.capacity(), |(capacity, _)| Ok(capacity)) {
            Err(ProbeError::CapacityUnknown { .. }) => Bytes::MAX,
            left => left?,
        };
        let line = most.map_or(left, |most| most.min(left));
        HEAP.set_line(usize::try_from(line.0).unwrap_or(usize::MAX));
        Ok(())
    }

    fn held_by_others(&self) -> Option<Bytes> {
        self.limits.as_ref()?.held_by_others(held()).ok()
    }

    fn largest_taken(&self) -> Option<Bytes> {
        Some(Bytes(HEAP.largest() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capacity_holds_until_others_could_have_filled_what_is_left_beyond_the_line() {
        let holds = |beyond| holds_for(Bytes::gib(beyond), Bytes::gib(32)).as_millis();
        assert_eq!([0, 2, 8, 32].map(holds), [10, 10, 31, 125]);
    }

    #[test]
    fn a_program_that_does_not_count_gets_an_error_and_no_zero() {
        let error = HeapProbe::try_new().unwrap_err();
        assert!(matches!(error, ProbeError::AllocatorNotInstalled));
        assert!(error.to_string().contains("#[global_allocator]"), "{error}");
    }
}
