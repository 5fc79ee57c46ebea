//! How far planning and searching are, said while they go on.

use std::io::{Cursor, IsTerminal, Write, stderr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use plimsoll_predict::Phase;

/// Time until something is said, and between two lines.
const EVERY: Duration = Duration::from_secs(2);
/// The same on a terminal, where a line replaces the one before.
const EVERY_ON_TERMINAL: Duration = Duration::from_millis(500);

/// The longest line, in bytes.
const LINE: usize = 160;

/// Erases the line of a terminal.
const ERASE: &str = "\r\x1b[2K";

/// Says every now and then how far something is, until it is dropped.
///
/// A thread of its own says it, because one step may take longer than anybody wants to wait; it takes no memory while it
/// runs, since what it took would be measured with the steps.
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    what: &'static str,
    is_terminal: bool,
    is_inference: AtomicBool,
    n_done: AtomicUsize,
    /// How many there are at most, or zero where nobody knows.
    n: AtomicUsize,
    is_over: Mutex<bool>,
    ends: Condvar,
}

impl Ticker {
    /// Begins; `what` names the work in a word.
    pub(crate) fn begin(what: &'static str) -> Self {
        let shared = Arc::new(Shared {
            what,
            is_terminal: stderr().is_terminal(),
            is_inference: AtomicBool::new(false),
            n_done: AtomicUsize::new(0),
            n: AtomicUsize::new(0),
            is_over: Mutex::new(false),
            ends: Condvar::new(),
        });
        let own = Arc::clone(&shared);
        // Without a thread there is nobody to say anything, and the work goes on.
        let thread = thread::Builder::new().name("ticker".to_owned()).spawn(move || own.tick()).ok();
        Self { shared, thread }
    }

    /// Learns how many are done, of how many at most.
    pub(crate) fn set(&self, phase: Phase, n_done: usize, n: usize) {
        self.shared.is_inference.store(phase == Phase::Infer, Ordering::Relaxed);
        self.shared.n_done.store(n_done, Ordering::Relaxed);
        self.shared.n.store(n, Ordering::Relaxed);
    }

    /// Learns that one more is done.
    pub(crate) fn add(&self) {
        self.shared.n_done.fetch_add(1, Ordering::Relaxed);
    }

    /// Leaves the place of the line to others.
    pub(crate) fn clear(&self) {
        self.shared.clear();
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        *self.shared.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.ends.notify_all();
        if let Some(thread) = self.thread.take() {
            // One that panicked has nothing more to say.
            drop(thread.join());
        }
        self.shared.clear();
    }
}

impl Shared {
    fn tick(&self) {
        let begun = Instant::now();
        let every = if self.is_terminal { EVERY_ON_TERMINAL } else { EVERY };
        let (mut phase_begun, mut was_inference) = (begun, false);
        let mut is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_over {
            let (guard, timeout) = self.ends.wait_timeout(is_over, every).unwrap_or_else(PoisonError::into_inner);
            is_over = guard;
            let is_inference = self.is_inference.load(Ordering::Relaxed);
            if is_inference != was_inference {
                (phase_begun, was_inference) = (Instant::now(), is_inference);
            }
            if timeout.timed_out() && !*is_over && EVERY <= begun.elapsed() {
                self.say(begun.elapsed(), phase_begun.elapsed());
            }
        }
    }

    fn say(&self, passed: Duration, of_phase: Duration) {
        let mut line = Cursor::new([0; LINE]);
        let (start, end) = if self.is_terminal { (ERASE, "") } else { ("", "\n") };
        let name = if self.is_inference.load(Ordering::Relaxed) { "inference" } else { "training" };
        let (n_done, n) = (self.n_done.load(Ordering::Relaxed), self.n.load(Ordering::Relaxed));
        let (what, passed) = (self.what, passed.as_secs());
        let mut written = write!(line, "{start}{what:<11} {name}: {n_done}");
        if n_done < n {
            written = written.and_then(|()| write!(line, " of at most {n}"));
        }
        written = written.and_then(|()| write!(line, " done, {passed} s so far"));
        if 0 < n_done && n_done < n {
            let left = of_phase.as_secs_f64() / n_done as f64 * (n - n_done) as f64;
            written = written.and_then(|()| write!(line, ", at most about {left:.0} s left"));
        }
        let told = written.and_then(|()| write!(line, "{end}"));
        let n_bytes = usize::try_from(line.position()).unwrap_or(LINE);
        // A terminal that is gone shows nothing, which ends no work.
        drop(told.and_then(|()| stderr().write_all(&line.get_ref()[..n_bytes])));
    }

    fn clear(&self) {
        if self.is_terminal {
            drop(stderr().write_all(ERASE.as_bytes()));
        }
    }
}

/// Shows how far planning is.
pub(crate) fn progress_of_planning() -> impl FnMut(Phase, usize, usize) {
    let ticker = Ticker::begin("planning");
    move |phase, n_done, n| ticker.set(phase, n_done, n)
}
