//! A line now and then while something takes long, so that nobody wonders whether it still runs.

use std::io::{Cursor, IsTerminal, Write, stderr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::say::{is_silent, show};

/// Time between two lines: nothing is silent for longer than two seconds.
pub(crate) const EVERY: Duration = Duration::from_millis(1500);

/// How soon one that was covered notices that it is not any more.
const UNCOVERED: Duration = Duration::from_millis(250);

/// The longest line.
const LONGEST: usize = 160;

/// Shows what is done, how far it is and for how long, as long as it is there.
///
/// It takes no memory while it shows a line: what is measured beside it is another's.
pub(crate) struct Beat {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Those that are there: only the last one shows lines, which knows best what is done.
static ALIVE: AtomicUsize = AtomicUsize::new(0);

/// When any of them has said something.
static SAID: Mutex<Option<Instant>> = Mutex::new(None);

/// Hears that something was said: nothing has to be for a while.
pub(crate) fn said() {
    *last_said() = Some(Instant::now());
}

/// Returns for how long nothing was said.
pub(crate) fn silence() -> Duration {
    last_said().get_or_insert_with(Instant::now).elapsed()
}

fn last_said() -> MutexGuard<'static, Option<Instant>> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Shared {
    what: &'static str,
    /// How many there were when it began, itself included.
    level: usize,
    begun: Instant,
    is_terminal: bool,
    state: Mutex<State>,
    ended: Condvar,
}

/// How far it is: so many parts of a place, of so many at most; of none where that is not known.
#[derive(Clone, Copy)]
struct State {
    place: &'static str,
    place_begun: Instant,
    n_done: usize,
    n: usize,
    told: Told,
    has_ended: bool,
    is_shown: bool,
    /// Whether something stands on the terminal that a line is to come below of.
    is_below: bool,
}

/// What is told of the parts.
#[derive(Clone, Copy)]
enum Told {
    /// How many are done, and how long the others will take.
    Done,
    /// Which is under way, and for how long.
    UnderWay,
}

impl Beat {
    /// Begins to show lines after a while; a system that starts no thread shows none.
    pub(crate) fn start(what: &'static str) -> Self {
        let is_terminal = stderr().is_terminal();
        let begun = Instant::now();
        let state = State {
            place: "",
            place_begun: begun,
            n_done: 0,
            n: 0,
            told: Told::Done,
            has_ended: false,
            is_shown: false,
            is_below: false,
        };
        let (state, ended) = (Mutex::new(state), Condvar::new());
        let level = ALIVE.fetch_add(1, Ordering::Relaxed) + 1;
        let shared = Arc::new(Shared { what, level, begun, is_terminal, state, ended });
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new().name("beat".to_owned()).spawn(move || own.run()).ok();
        Self { shared, thread }
    }

    /// Says how far it is.
    pub(crate) fn at(&self, place: &'static str, n_done: usize, n: usize) {
        let mut state = self.shared.lock();
        // What is counted anew is another part.
        if state.place != place || n_done < state.n_done || n != state.n {
            state.place_begun = Instant::now();
        }
        (state.place, state.n_done, state.n, state.told) = (place, n_done, n, Told::Done);
    }

    /// Says which of several parts is under way, or that one is which has no number.
    pub(crate) fn under_way(&self, place: &'static str, number: usize, n: usize) {
        let state = &mut *self.shared.lock();
        (state.place, state.n_done, state.n, state.told) = (place, number, n, Told::UnderWay);
        state.place_begun = Instant::now();
    }

    /// Leaves the line of a terminal for others to write on, which say something.
    pub(crate) fn clear(&self) {
        self.say("", false);
    }

    /// Writes something where its line stands; `is_panel` is for what its lines come below of, on a terminal.
    pub(crate) fn say(&self, text: &str, is_panel: bool) {
        let mut state = self.shared.lock();
        self.shared.erase(&mut state);
        state.is_below = is_panel;
        show(text);
        said();
    }
}

impl Drop for Beat {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.has_ended = true;
        self.shared.erase(&mut state);
        drop(state);
        ALIVE.fetch_sub(1, Ordering::Relaxed);
        self.shared.ended.notify_all();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has shown that itself.
            drop(thread.join());
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.lock();
        while !state.has_ended {
            let left = EVERY.saturating_sub(silence());
            if left.is_zero() && ALIVE.load(Ordering::Relaxed) <= self.level {
                self.show(&mut state);
                said();
            }
            let wait = left.max(UNCOVERED);
            (state, _) = self.ended.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn show(&self, state: &mut State) {
        if is_silent() {
            return;
        }
        let mut line = Cursor::new([0; LONGEST]);
        // A line that is too long is cut.
        drop(self.write(&mut line, *state));
        let length = usize::try_from(line.position()).unwrap_or(0);
        drop(stderr().lock().write_all(&line.get_ref()[..length]));
        state.is_shown = true;
    }

    fn write(&self, line: &mut impl Write, state: State) -> std::io::Result<()> {
        let State { place, place_begun, n_done, n, told, is_shown, is_below, .. } = state;
        let (start, end) = if self.is_terminal { ("\r\x1b[2K", "") } else { ("", "\n") };
        let below = if self.is_terminal && is_below && !is_shown { "\n" } else { "" };
        write!(line, "{below}{start}{:<12}", self.what)?;
        if matches!(told, Told::UnderWay) {
            write!(line, "{place}")?;
            if 0 < n {
                write!(line, " {n_done} of {n}")?;
            }
            write!(line, ", {:.0} s so far", place_begun.elapsed().as_secs_f64())?;
            return line.write_all(end.as_bytes());
        }
        if !place.is_empty() {
            write!(line, "{place}: ")?;
        }
        match (n_done, n) {
            (0, 0) => (),
            (_, 0) => write!(line, "{n_done} done, ")?,
            _ => write!(line, "{n_done} of {n}, ")?,
        }
        write!(line, "{:.0} s so far", self.begun.elapsed().as_secs_f64())?;
        if 0 < n_done && n_done < n {
            let left = place_begun.elapsed().as_secs_f64() / n_done as f64 * (n - n_done) as f64;
            write!(line, ", about {left:.0} s left")?;
        }
        line.write_all(end.as_bytes())
    }

    fn erase(&self, state: &mut State) {
        if self.is_terminal && state.is_shown {
            state.is_shown = false;
            let above: &[u8] = if state.is_below { b"\x1b[1A" } else { b"" };
            let mut stderr = stderr().lock();
            drop(stderr.write_all(b"\r\x1b[2K").and_then(|()| stderr.write_all(above)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_done_how_far_and_for_how_long() {
        let beat = Beat::start("planning");
        let line = || {
            let mut line = Vec::new();
            beat.shared.write(&mut line, *beat.shared.lock()).unwrap();
            String::from_utf8(line).unwrap().replace(['\n', '\r'], "").replace("\x1b[2K", "")
        };
        assert_eq!(line(), "planning    0 s so far");
        beat.at("training", 3, 40);
        assert_eq!(line(), "planning    training: 3 of 40, 0 s so far, about 0 s left");
        beat.at("", 40, 40);
        assert_eq!(line(), "planning    40 of 40, 0 s so far");
        beat.at("", 3, 0);
        assert_eq!(line(), "planning    3 done, 0 s so far");
        beat.under_way("step", 3, 40);
        assert_eq!(line(), "planning    step 3 of 40, 0 s so far");
        beat.under_way("report", 0, 0);
        assert_eq!(line(), "planning    report, 0 s so far");
    }
}
