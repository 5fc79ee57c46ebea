//! What the workers of a pool hold.

use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::SeqCst};

use crate::threads::others;

thread_local! {
    /// A window, and what this thread held when it took part in it first.
    static BEFORE: Cell<(usize, isize)> = const { Cell::new((0, 0)) };
}

/// Names windows; no two have the same name, whoever counts.
static WINDOWS: AtomicUsize = AtomicUsize::new(1);

/// What all workers hold, and the most that one of them has taken since the last reset.
///
/// One of them stands for the thread that would work alone: what it holds counts in the peak of the work that is measured, at
/// the moment when it holds it.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    current: AtomicIsize,
    window: AtomicUsize,
    /// What all held when the window began.
    before: AtomicIsize,
    /// The most that one has taken since.
    most: AtomicIsize,
}

impl Workers {
    pub(crate) const fn new() -> Self {
        Self {
            current: AtomicIsize::new(0),
            window: AtomicUsize::new(0),
            before: AtomicIsize::new(0),
            most: AtomicIsize::new(0),
        }
    }

    pub(crate) fn current(&self) -> isize {
        self.current.load(SeqCst)
    }

    /// Returns what all held when the window began, and what all but one would hold with it if each held the most that one of
    /// them has taken.
    pub(crate) fn peak(&self) -> isize {
        let each = self.most.load(SeqCst).max(0);
        self.before.load(SeqCst).saturating_add(each.saturating_mul(others().cast_signed()))
    }

    /// Returns what all have taken since the window began and hold now, but no more than the most that one has taken.
    ///
    /// With that and as much for each of the others, nothing that all hold at once is left out.
    pub(crate) fn one(&self) -> isize {
        (self.current() - self.before.load(SeqCst)).clamp(0, self.most.load(SeqCst).max(0))
    }

    /// Counts bytes that this thread takes, or returns, and now holds so many with; returns what all hold with them, and what
    /// this one has taken since the window began.
    pub(crate) fn add(&self, bytes: isize, now: isize) -> (isize, isize) {
        let all = self.current.fetch_add(bytes, SeqCst) + bytes;
        let window = self.window.load(SeqCst);
        let before = BEFORE.try_with(|it| {
            if it.get().0 != window {
                it.set((window, now - bytes));
            }
            it.get().1
        });
        (all, now - before.unwrap_or(now - bytes))
    }

    pub(crate) fn raise(&self, taken: isize) {
        if self.most.load(SeqCst) < taken {
            self.most.fetch_max(taken, SeqCst);
        }
    }

    /// Begins a window.
    pub(crate) fn turn(&self) {
        // In this order, what a worker takes meanwhile is in one of them at least.
        self.most.store(0, SeqCst);
        self.window.store(WINDOWS.fetch_add(1, SeqCst), SeqCst);
        self.before.store(self.current(), SeqCst);
    }
}
