//! The heap, divided among several devices of one program.

mod probe;

use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::SeqCst};

use plimsoll_types::{Bytes, MemoryReading};

pub(crate) use self::probe::CompartmentProbe;
use crate::beside::Beside;
use crate::packed::Packed;
use crate::threads::{Part, part};

/// A part of the program's heap: the memory of one of several Flex devices.
///
/// It has what the threads have taken that [entered](Self::enter) it, wherever they gave it to: a block of 1 KiB and more is
/// marked with whose it is, so that it stops counting there, and not where the thread that returns it is. Smaller blocks,
/// of which messages between threads are made and the nodes of a graph, count in no compartment; they stand in what the
/// program holds beside all of them, and so in what is left for each.
///
/// Resizing a block makes it a block of whoever resizes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compartment(u8);

/// Whose a block is: nobody's, or in which compartment by which part of its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(u8);

/// From which size on a block says whose it is.
pub(crate) const LEAST_OWNED: usize = 1 << 10;

thread_local! {
    /// The compartment that a thread has entered.
    static ENTERED: Cell<Option<Compartment>> = const { Cell::new(None) };
}

static TALLIES: [Tally; Compartment::MOST] = [const { Tally::new() }; Compartment::MOST];

/// What a compartment holds, and the most that it held since the last reset.
#[derive(Debug)]
#[repr(align(128))]
struct Tally {
    own: AtomicIsize,
    own_peak: AtomicIsize,
    beside: Beside,
    packed: Packed,
    largest: AtomicUsize,
}

impl Compartment {
    /// How many there are: a mark is one byte, which holds the part of the threads too.
    pub const MOST: usize = 127;

    /// Returns the one at a place, counted from 0.
    pub fn at(place: usize) -> Option<Self> {
        u8::try_from(place).ok().filter(|_| place < Self::MOST).map(Self)
    }

    /// Returns the one that this thread has entered.
    pub fn of_thread() -> Option<Self> {
        ENTERED.try_with(Cell::get).unwrap_or(None)
    }

    /// Counts what this thread takes from now on as this compartment's: the first thing that a thread does which works on
    /// its device, and one that works for that thread.
    pub fn enter(self) {
        ENTERED.set(Some(self));
    }

    /// Returns what it holds, and the most that it held since the last reset.
    pub(crate) fn read(self) -> MemoryReading {
        let Tally { own, own_peak, beside, packed, .. } = self.tally();
        let in_use = bytes(own.load(SeqCst) + beside.most());
        let peak = bytes(own_peak.load(SeqCst) + beside.most()).max(in_use);
        MemoryReading { in_use, reserved: in_use, peak, page: Bytes::ZERO, packed: packed.most() }
    }

    /// Starts a new peak at what it holds now.
    pub(crate) fn reset_peak(self) {
        let Tally { own, own_peak, beside, largest, .. } = self.tally();
        largest.store(0, SeqCst);
        beside.turn();
        // A block that is counted between the two lines raises the peak by itself.
        own_peak.store(isize::MIN / 2, SeqCst);
        own_peak.fetch_max(own.load(SeqCst), SeqCst);
    }

    /// Returns the largest block that it got since the last reset.
    pub(crate) fn largest(self) -> Bytes {
        Bytes(self.tally().largest.load(SeqCst) as u64)
    }

    /// Returns what all of them hold.
    pub(crate) fn all_hold() -> Bytes {
        bytes(TALLIES.iter().map(|it| it.own.load(SeqCst) + it.beside.current()).sum())
    }

    fn tally(self) -> &'static Tally {
        &TALLIES[usize::from(self.0)]
    }
}

impl Owner {
    const NOBODY: Self = Self(0);

    /// Returns whose a block of this size is that this thread takes.
    pub(crate) fn of(size: usize) -> Self {
        if size < LEAST_OWNED {
            return Self::NOBODY;
        }
        let beside = u8::from(part() == Part::Beside);
        Compartment::of_thread().map_or(Self::NOBODY, |it| Self(1 + 2 * it.0 + beside))
    }

    /// Returns the owner of this mark; one that is no mark at all is nobody's.
    pub(crate) fn of_mark(mark: u8) -> Self {
        Self(mark)
    }

    pub(crate) fn mark(self) -> u8 {
        self.0
    }

    /// Counts a block that it got.
    pub(crate) fn got(self, size: usize) {
        let Some(tally) = self.tally() else { return };
        tally.largest.fetch_max(size, SeqCst);
        if self.is_beside() {
            tally.beside.raise(tally.beside.add(size.cast_signed()));
        } else {
            let held = tally.own.fetch_add(size.cast_signed(), SeqCst) + size.cast_signed();
            tally.own_peak.fetch_max(held, SeqCst);
        }
    }

    /// Stops counting a block that it had.
    pub(crate) fn had(self, size: usize) {
        let Some(tally) = self.tally() else { return };
        if self.is_beside() {
            tally.beside.add(-size.cast_signed());
        } else {
            tally.own.fetch_sub(size.cast_signed(), SeqCst);
        }
    }

    /// Returns what its threads have packed.
    pub(crate) fn packed(self) -> Option<&'static Packed> {
        self.tally().map(|it| &it.packed)
    }

    fn is_beside(self) -> bool {
        self.0.is_multiple_of(2)
    }

    fn tally(self) -> Option<&'static Tally> {
        TALLIES.get(usize::from(self.0.checked_sub(1)? / 2))
    }
}

impl Tally {
    const fn new() -> Self {
        Self {
            own: AtomicIsize::new(0),
            own_peak: AtomicIsize::new(0),
            beside: Beside::new(),
            packed: Packed::new(),
            largest: AtomicUsize::new(0),
        }
    }
}

/// What is held is not less than nothing, unless a block changes hands while it is counted.
fn bytes(held: isize) -> Bytes {
    Bytes(held.max(0).unsigned_abs() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_names_a_compartment_and_a_part_of_its_threads() {
        let owners = |place: usize| {
            let work = move || {
                Compartment::at(place).unwrap().enter();
                let own = Owner::of(LEAST_OWNED);
                crate::count_beside();
                [own, Owner::of(LEAST_OWNED), Owner::of(LEAST_OWNED - 1)]
            };
            std::thread::spawn(work).join().unwrap()
        };
        let mut marks: Vec<u8> =
            (0..Compartment::MOST).flat_map(|place| owners(place)[..2].to_vec()).map(Owner::mark).collect();
        assert_eq!(owners(Compartment::MOST - 1)[2], Owner::NOBODY, "a small block is nobody's");
        marks.sort_unstable();
        marks.dedup();
        assert_eq!((marks.len(), marks[0]), (2 * Compartment::MOST, 1));
        assert_eq!((Compartment::at(Compartment::MOST), Compartment::at(usize::MAX)), (None, None));
        assert_eq!(Owner::of(LEAST_OWNED), Owner::NOBODY, "this thread has entered none");
    }
}
