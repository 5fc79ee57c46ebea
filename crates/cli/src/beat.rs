//! A line now and then while something takes long, so that nobody wonders whether it still runs.

use std::io::{Cursor, IsTerminal, Write, stderr};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time between two lines: nothing is silent for longer than two seconds.
const EVERY: Duration = Duration::from_millis(1500);

/// The longest line.
const LONGEST: usize = 160;

/// Shows what is done, how far it is and for how long, as long as it is there.
///
/// It takes no memory while it shows a line: what is measured beside it is another's.
pub(crate) struct Beat {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    what: &'static str,
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
    has_ended: bool,
    is_shown: bool,
}

impl Beat {
    /// Begins to show lines after a while; a system that starts no thread shows none.
    pub(crate) fn start(what: &'static str) -> Self {
        let is_terminal = stderr().is_terminal();
        let begun = Instant::now();
        let state = State { place: "", place_begun: begun, n_done: 0, n: 0, has_ended: false, is_shown: false };
        let (state, ended) = (Mutex::new(state), Condvar::new());
        let shared = Arc::new(Shared { what, begun, is_terminal, state, ended });
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
        (state.place, state.n_done, state.n) = (place, n_done, n);
    }

    /// Leaves the line of a terminal for others to write on.
    pub(crate) fn clear(&self) {
        let mut state = self.shared.lock();
        self.shared.erase(&mut state);
    }
}

impl Drop for Beat {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.has_ended = true;
        self.shared.erase(&mut state);
        drop(state);
        self.shared.ended.notify_all();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has shown that itself.
            drop(thread.join());
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.lock();
        while !state.has_ended {
            let (woken, waited) = self.ended.wait_timeout(state, EVERY).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if waited.timed_out() && !state.has_ended {
                self.show(&mut state);
            }
        }
    }

    fn show(&self, state: &mut State) {
        let mut line = Cursor::new([0; LONGEST]);
        // A line that is too long is cut.
        drop(self.write(&mut line, *state));
        let length = usize::try_from(line.position()).unwrap_or(0);
        drop(stderr().lock().write_all(&line.get_ref()[..length]));
        state.is_shown = true;
    }

    fn write(&self, line: &mut impl Write, state: State) -> std::io::Result<()> {
        let State { place, place_begun, n_done, n, .. } = state;
        let (start, end) = if self.is_terminal { ("\r\x1b[2K", "") } else { ("", "\n") };
        write!(line, "{start}{:<12}", self.what)?;
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
            drop(stderr().lock().write_all(b"\r\x1b[2K"));
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
    }
}
