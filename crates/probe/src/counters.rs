//! The numbers behind the heap's readings.

use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::SeqCst};

use crate::beside::Beside;
use crate::packed::Packed;
use crate::share;
use crate::threads::{Part, count_as_own, part};
use crate::workers::Workers;

/// Bytes held, and the most that were held since the last reset; lock-free.
///
/// What the threads hold that [`count_beside`](crate::count_beside) was called on is counted apart, and has no part in
/// the peak but by the most that it was lately: the same from one reset to the next. Of what
/// [workers](crate::count_as_worker) hold, the peak has what it would be if all held at once the most that one has taken.
///
/// A block counts from before the system is asked for it until after the system has it back, so the count is never
/// below what is held, and the peak never below the true simultaneous maximum.
/// With one thread both are exact; with several that are counted alike, the peak may exceed the truth by the blocks that were just being taken
/// or returned at that moment.
#[derive(Debug, Default)]
pub struct HeapCounters {
    /// Less than nothing where threads beside took what others returned; the sum of both is what is held.
    own: Line<AtomicIsize>,
    own_peak: Line<AtomicIsize>,
    beside: Line<Beside>,
    workers: Line<Workers>,
    packed: Line<Packed>,
    largest: Line,
    /// One more than the bytes that may be held; zero without a limit.
    limit: Line,
    /// The same for all blocks but small ones, which may go on into a reserve above it.
    line: Line,
}

/// A block up to this size is served above the line, out of the reserve: a message, a line of a log, an open file. What
/// fills a machine are tensors, pictures and recordings, each of which is larger.
const SMALL: usize = 64 << 10;

/// What small blocks may take above the line, all together: a log's line and a report are far below.
const RESERVE: usize = 8 << 20;

/// A counter alone on its cache line (two, as they are fetched in pairs): the peak is mostly read, and reading it must
/// not wait for the writers of the current value.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line<T = AtomicUsize>(T);

/// What is held with a block that is about to be taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// By the whole program.
    pub(crate) all: usize,
    /// By the threads of its part; of workers, by this one.
    of_part: isize,
    /// By this thread.
    of_thread: isize,
    part: Part,
}

impl Held {
    /// Whether a worker takes the block.
    pub(crate) fn is_by_worker(self) -> bool {
        self.part == Part::Worker
    }

    /// The same without another block of this thread, to [`raise`](HeapCounters::raise) the peak to.
    pub(crate) fn without(self, size: usize) -> Self {
        let [of_part, of_thread] = [self.of_part, self.of_thread].map(|it| it - size.cast_signed());
        Self { of_part, of_thread, ..self }
    }
}

static HEAP: HeapCounters = HeapCounters::new();

// Every access is sequentially consistent. A reset (peak, then current) against an allocation (current, then peak) is
// the one pattern where weaker orderings could lose a block on both sides; on x86-64 it costs nothing more.
impl HeapCounters {
    /// Counts from zero.
    pub const fn new() -> Self {
        Self {
            own: Line(AtomicIsize::new(0)),
            own_peak: Line(AtomicIsize::new(0)),
            beside: Line(Beside::new()),
            workers: Line(Workers::new()),
            packed: Line(Packed::new()),
            largest: Line(AtomicUsize::new(0)),
            limit: Line(AtomicUsize::new(0)),
            line: Line(AtomicUsize::new(0)),
        }
    }

    /// Returns the counters of this program's heap: [`TrackingAllocator::new`](crate::TrackingAllocator::new) counts in
    /// them, and [`HeapProbe`](crate::HeapProbe) reads them.
    pub const fn of_program() -> &'static Self {
        &HEAP
    }

    /// Returns the bytes that are held.
    pub fn current(&self) -> usize {
        unsigned(self.own.0.load(SeqCst) + self.beside.0.current() + self.workers.0.current())
    }

    /// Returns the bytes that are held, with the most that threads beside held lately in place of what they hold now.
    pub fn steady(&self) -> usize {
        unsigned(self.own.0.load(SeqCst) + self.beside.0.most() + self.workers.0.current())
    }

    /// Returns the most bytes that were held at once since the last reset.
    pub fn peak(&self) -> usize {
        unsigned(self.own_peak.0.load(SeqCst) + self.beside.0.most() + self.workers.0.peak())
    }

    /// Returns what was packed for products of matrices.
    pub(crate) fn packed(&self) -> &Packed {
        &self.packed.0
    }

    /// Returns the size of the largest block that was asked for since the last reset, whether it was given or not.
    pub fn largest(&self) -> usize {
        self.largest.0.load(SeqCst)
    }

    /// Starts a new peak at what is held now, of work that this thread has a part in.
    pub fn reset_peak(&self) {
        if part() == Part::Worker {
            count_as_own();
        }
        self.largest.0.store(0, SeqCst);
        self.workers.0.turn();
        self.beside.0.turn();
        // A block that is counted between the two lines raises the peak by itself.
        self.own_peak.0.store(isize::MIN / 2, SeqCst);
        self.raise_own(self.own.0.load(SeqCst));
    }

    /// Refuses every block from now on that makes more than `bytes` held at once, as a system does that has no more.
    pub fn set_limit(&self, bytes: usize) {
        self.limit.0.store(bytes.saturating_add(1), SeqCst);
    }

    /// Draws the line: from now on a block of more than 64 KiB that makes more than `bytes` held at once is refused.
    ///
    /// Smaller ones are served up to 8 MiB above it, so that a program that was refused something can still say so, and
    /// write down what it has. A thread that panics is refused nothing, and the line goes up to what is held then:
    /// refused, it would wait for itself for ever while it writes its backtrace, which stays in memory.
    pub fn set_line(&self, bytes: usize) {
        self.line.0.store(bytes.saturating_add(1), SeqCst);
    }

    /// Returns the line, where one is drawn.
    pub fn line(&self) -> Option<usize> {
        self.line.0.load(SeqCst).checked_sub(1)
    }

    /// Whether so many bytes may be held with a block of this size.
    pub(crate) fn allows(&self, held: usize, size: usize) -> bool {
        let (limit, line) = (self.limit.0.load(SeqCst), self.line.0.load(SeqCst));
        if limit != 0 && limit <= held {
            return false;
        }
        if line == 0 || held < line || is_within_reserve(held - line, size) {
            return true;
        }
        let panics = std::thread::panicking();
        if panics {
            self.line.0.fetch_max(held.saturating_add(1), SeqCst);
        }
        panics
    }

    /// Counts a block that is about to be asked for, and returns the bytes held with it.
    pub(crate) fn begin(&self, size: usize) -> Held {
        if self.largest.0.load(SeqCst) < size {
            self.largest.0.fetch_max(size, SeqCst);
        }
        let (part, signed) = (part(), size.cast_signed());
        let (own, beside, workers) = (&self.own.0, &self.beside.0, &self.workers.0);
        let of_thread = share::add(signed);
        let (all, of_part) = match part {
            Part::Own => {
                let held = own.fetch_add(signed, SeqCst) + signed;
                (held + beside.current() + workers.current(), held)
            }
            Part::Beside => {
                let held = beside.add(signed);
                (own.load(SeqCst) + held + workers.current(), held)
            }
            Part::Worker => {
                let (held, taken) = workers.add(signed, of_thread);
                (own.load(SeqCst) + beside.current() + held, taken)
            }
        };
        Held { all: unsigned(all), of_part, of_thread, part }
    }

    /// Stops counting a block that the system has back, or has refused.
    pub(crate) fn end(&self, size: usize) {
        let signed = size.cast_signed();
        let of_thread = share::add(-signed);
        match part() {
            Part::Own => _ = self.own.0.fetch_sub(signed, SeqCst),
            Part::Beside => _ = self.beside.0.add(-signed),
            Part::Worker => _ = self.workers.0.add(-signed, of_thread),
        }
    }

    /// Raises the peak to what is held.
    pub(crate) fn raise(&self, held: Held) {
        share::raise(held.of_thread);
        match held.part {
            Part::Own => self.raise_own(held.of_part + self.workers.0.one()),
            Part::Beside => self.beside.0.raise(held.of_part),
            Part::Worker => {
                self.workers.0.raise(held.of_part);
                self.raise_own(self.own.0.load(SeqCst) + self.workers.0.one());
            }
        }
    }

    fn raise_own(&self, held: isize) {
        if self.own_peak.0.load(SeqCst) < held {
            self.own_peak.0.fetch_max(held, SeqCst);
        }
    }
}

/// What is held is not less than nothing, unless a block changes hands while several parts are counted.
fn unsigned(bytes: isize) -> usize {
    usize::try_from(bytes).unwrap_or(0)
}

fn is_within_reserve(above: usize, size: usize) -> bool {
    size <= SMALL && above < RESERVE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::{ALONE, n_workers};

    #[test]
    fn a_reset_keeps_what_is_held() {
        let counters = HeapCounters::new();
        counters.raise(counters.begin(100));
        counters.raise(counters.begin(50));
        counters.end(50);
        assert_eq!((counters.current(), counters.peak(), counters.largest()), (100, 150, 100));
        counters.reset_peak();
        assert_eq!((counters.current(), counters.peak(), counters.largest()), (100, 100, 0));
    }

    #[test]
    fn every_worker_may_hold_what_any_has_taken() {
        let (_alone, counters) = (ALONE.lock(), HeapCounters::new());
        counters.raise(counters.begin(100));
        counters.reset_peak();
        // One after the other, so that they never hold anything at once.
        for size in [10, 30] {
            let work = || {
                crate::count_as_worker();
                counters.raise(counters.begin(size));
                let held = (counters.current(), counters.peak());
                counters.end(size);
                held
            };
            let held = std::thread::scope(|scope| scope.spawn(work).join().unwrap());
            assert_eq!(held.0, 100 + size);
        }
        let n = n_workers();
        assert!(2 <= n);
        assert_eq!((counters.current(), counters.peak()), (100, 100 + n * 30));
        let alone = || {
            crate::count_as_worker();
            counters.reset_peak();
            counters.raise(counters.begin(50));
            counters.end(50);
        };
        std::thread::scope(|scope| scope.spawn(alone).join().unwrap());
        assert_eq!((counters.current(), counters.peak()), (100, 150), "whoever resets the peak is no worker");
    }

    #[test]
    fn what_one_worker_holds_counts_for_as_long_as_it_holds_it() {
        let (_alone, counters) = (ALONE.lock(), HeapCounters::new());
        let take = |size: usize| counters.raise(counters.begin(size));
        let work = |keeps: bool| {
            let work = || {
                crate::count_as_worker();
                take(30);
                if !keeps {
                    counters.end(30);
                }
            };
            std::thread::scope(|scope| scope.spawn(work).join().unwrap());
        };
        let one = || counters.peak() - (n_workers() - 1) * 30;
        counters.reset_peak();
        take(100);
        counters.end(90);
        work(false);
        assert_eq!(one(), 100, "what was held before is not held beside it");
        take(70);
        work(false);
        assert_eq!(one(), 110);
        work(true);
        take(20);
        assert_eq!(one(), 130, "what it keeps is held beside all that comes");
    }

    #[test]
    fn a_share_is_what_one_thread_has_taken_whatever_others_take() {
        let counters = HeapCounters::new();
        let take = |size: usize| counters.raise(counters.begin(size));
        take(7);
        let share = crate::Share::begin();
        take(100);
        std::thread::scope(|scope| scope.spawn(|| take(1000)).join().unwrap());
        counters.end(100);
        take(60);
        assert_eq!((share.most().0, share.held().0, counters.peak()), (100, 60, 1107));
        counters.end(60);
        assert_eq!(crate::Share::begin().most().0, 0);
    }

    #[test]
    fn a_limit_is_the_most_that_may_be_held() {
        let counters = HeapCounters::new();
        assert!(counters.allows(usize::MAX, 1));
        counters.set_limit(100);
        assert_eq!((counters.allows(100, 1), counters.allows(101, 1)), (true, false));
    }

    #[test]
    fn only_small_blocks_pass_the_line_and_only_into_the_reserve() {
        let (counters, line) = (HeapCounters::new(), 100 << 20);
        assert_eq!(counters.line(), None);
        counters.set_line(line);
        assert_eq!(counters.line(), Some(line));
        assert!(counters.allows(line, line), "what fills it to the line is no small block");
        assert_eq!((counters.allows(line + 1, SMALL + 1), counters.allows(line + 1, SMALL)), (false, true));
        assert_eq!((counters.allows(line + RESERVE, 1), counters.allows(line + RESERVE + 1, 1)), (true, false));
    }

    #[test]
    fn a_refused_block_leaves_no_trace() {
        let counters = HeapCounters::new();
        counters.begin(1 << 40);
        counters.end(1 << 40);
        assert_eq!((counters.current(), counters.peak()), (0, 0));
    }
}
