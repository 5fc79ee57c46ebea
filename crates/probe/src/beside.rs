//! What threads hold beside the work that is measured.

use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::SeqCst};

/// After so many resets, the most that was held begins anew; that of the resets before counts until the next turn.
///
/// 48: a run is back at its line within 200 steps after a burst, the way of its policy included; bounds forget as soon.
const RESETS: usize = 48;

/// What the threads beside hold, and the most that they held lately.
///
/// A block that one kind of thread takes and the other returns counts up here and down there for ever; the sum is right.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    current: AtomicIsize,
    peak: AtomicIsize,
    peak_before: AtomicIsize,
    resets: AtomicUsize,
    /// The most lately, as it was at the last reset.
    most: AtomicIsize,
}

impl Beside {
    pub(crate) const fn new() -> Self {
        Self {
            current: AtomicIsize::new(0),
            peak: AtomicIsize::new(0),
            peak_before: AtomicIsize::new(0),
            resets: AtomicUsize::new(0),
            most: AtomicIsize::new(0),
        }
    }

    pub(crate) fn current(&self) -> isize {
        self.current.load(SeqCst)
    }

    /// Returns the most that was held lately, as of the last reset.
    pub(crate) fn most(&self) -> isize {
        self.most.load(SeqCst)
    }

    /// Counts bytes that are taken, or returned, and returns what is held with them.
    pub(crate) fn add(&self, bytes: isize) -> isize {
        self.current.fetch_add(bytes, SeqCst) + bytes
    }

    pub(crate) fn raise(&self, held: isize) {
        if self.peak.load(SeqCst) < held {
            self.peak.fetch_max(held, SeqCst);
        }
    }

    /// Begins a window in which [`Self::most`] stays as it is.
    pub(crate) fn turn(&self) {
        let peak = self.peak.load(SeqCst);
        self.most.store(peak.max(self.peak_before.load(SeqCst)), SeqCst);
        if self.resets.fetch_add(1, SeqCst) % RESETS == RESETS - 1 {
            self.peak_before.store(peak, SeqCst);
            self.peak.store(isize::MIN, SeqCst);
            self.raise(self.current());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_is_that_of_the_last_resets_and_stays_between_two() {
        let beside = Beside::new();
        beside.raise(beside.add(100));
        assert_eq!((beside.current(), beside.most()), (100, 0));
        beside.turn();
        beside.raise(beside.add(50));
        beside.add(-150);
        assert_eq!((beside.current(), beside.most()), (0, 100));
        (0..RESETS).for_each(|_| beside.turn());
        assert_eq!(beside.most(), 150, "for as long as this at least");
        (0..2 * RESETS).for_each(|_| beside.turn());
        assert_eq!(beside.most(), 0, "and not for ever");
    }
}
