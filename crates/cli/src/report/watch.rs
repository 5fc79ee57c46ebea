//! A run that another process writes, followed.

use std::fmt::Display as Shown;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_monitor::{Pace, Progress, decode_bytes};
use plimsoll_train::{EVENTS_FILE, RunDir};
use plimsoll_types::{EndReason, Event};

use super::recorded::check;
use crate::display::Display;
use crate::exit::{UserError, user_error};

/// Time between two looks.
const EVERY: Duration = Duration::from_millis(200);
/// How long nobody may write before the run is taken for dead: a worker that died is started again sooner.
const PATIENCE: Duration = Duration::from_secs(10);

/// Shows what a run does until it ends, or nobody writes it any more.
pub(super) fn watch(run: &Path) -> anyhow::Result<ExitCode> {
    check(run)?;
    let mut tail = Tail::of(run);
    let mut watched = Watched::new();
    let (mut last, mut is_first) = (Instant::now(), true);
    let ended = loop {
        let events = tail.more()?;
        if is_first || tail.has_gone_back {
            watched.catch_up(&events);
        } else {
            events.iter().for_each(|it| watched.hear(it));
        }
        if let Some(Event::RunEnded(ended)) = events.last() {
            break *ended;
        }
        if !events.is_empty() || RunDir::is_being_written(run) {
            last = Instant::now();
        }
        if PATIENCE < last.elapsed() {
            let (path, seconds) = (run.display(), PATIENCE.as_secs());
            anyhow::bail!("watch {path}: nobody has written it for {seconds} s, and it has not ended; {GO_ON}");
        }
        is_first = false;
        thread::sleep(EVERY);
    };
    drop(watched);
    println!("{}: {} after {} steps", run.display(), how(ended.reason), ended.step);
    Ok(ExitCode::SUCCESS)
}

/// What can be done with a run that died.
const GO_ON: &str = "`train --resume` goes on with it, and `report` says what came of it";

const fn how(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Completed => "completed",
        EndReason::StoppedEarly => "ended early",
        EndReason::Interrupted => "interrupted",
    }
}

struct Watched {
    display: Display,
    progress: Option<Progress>,
    pace: Pace,
    /// Samples and seconds of the steps that were seen.
    work: (u64, f64),
}

impl Watched {
    fn new() -> Self {
        Self { display: Display::of_another(), progress: None, pace: Pace::default(), work: (0, 0.0) }
    }

    /// Takes over what was before, and shows only where the run stands.
    fn catch_up(&mut self, events: &[Event]) {
        (self.progress, self.pace, self.work) = (None, Pace::default(), (0, 0.0));
        events.iter().for_each(|it| self.take(it));
        let last_step = events.iter().rev().find(|it| matches!(it, Event::StepDone(_)));
        if let (Some(progress), Some(event)) = (&self.progress, last_step) {
            self.display.show(event, progress);
        }
    }

    /// Shows an event.
    fn hear(&mut self, event: &Event) {
        self.take(event);
        if let Some(progress) = &self.progress {
            self.display.show(event, progress);
        }
    }

    fn take(&mut self, event: &Event) {
        if let Event::RunStarted(start) = event {
            self.progress = Some(Progress::of(start));
        }
        let Some(progress) = &mut self.progress else { return };
        progress.hear(event);
        if let Event::StepDone(done) = event {
            self.pace.step(done.seconds);
            self.work = (self.work.0 + done.n_samples(), self.work.1 + done.seconds);
            progress.samples_per_second = self.work.0 as f64 / self.work.1;
            let left = progress.n_steps.saturating_sub(progress.step) as f64;
            progress.seconds_left = self.pace.of_step().map(|it| it * left);
        }
    }
}

/// The end of a log that grows.
struct Tail {
    path: PathBuf,
    /// Bytes that were read.
    n_read: u64,
    /// A line that is not whole yet.
    rest: Vec<u8>,
    /// Whether the log has become shorter since, because steps are done again: what follows is all of it.
    has_gone_back: bool,
}

impl Tail {
    fn of(run: &Path) -> Self {
        Self { path: run.join(EVENTS_FILE), n_read: 0, rest: Vec::new(), has_gone_back: false }
    }

    /// Returns what was added since; a run that has not begun yet has no log.
    fn more(&mut self) -> Result<Vec<Event>, UserError> {
        self.has_gone_back = false;
        let failed = |what: &dyn Shown| user_error(format!("read {}: {what}", self.path.display()));
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            file => file.map_err(|error| failed(&error))?,
        };
        if file.metadata().map_err(|error| failed(&error))?.len() < self.n_read {
            self.go_back();
        }
        match self.read(&mut file) {
            // One that went back and has grown again since is in the middle of a line.
            Err(_) if 0 < self.n_read && !self.has_gone_back => self.go_back(),
            events => return events,
        }
        self.read(&mut file)
    }

    fn go_back(&mut self) {
        (self.n_read, self.has_gone_back) = (0, true);
        self.rest.clear();
    }

    fn read(&mut self, file: &mut File) -> Result<Vec<Event>, UserError> {
        let failed = |what: &dyn Shown| user_error(format!("read {}: {what}", self.path.display()));
        let read = file.seek(SeekFrom::Start(self.n_read)).and_then(|_| file.read_to_end(&mut self.rest));
        let n_new = read.map_err(|error| failed(&error))? as u64;
        let whole = self.rest.iter().rposition(|it| *it == b'\n').map_or(0, |at| at + 1);
        let log = decode_bytes(&self.rest[..whole]).map_err(|error| failed(&error))?;
        self.n_read += n_new;
        self.rest.drain(..whole);
        Ok(log.events)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use plimsoll_monitor::encode;
    use plimsoll_types::EpochDone;

    use super::*;

    fn epoch(epoch: u64) -> Event {
        Event::EpochDone(EpochDone { epoch, step: 3, samples: 9 })
    }

    #[test]
    fn a_log_is_followed_line_by_line_and_taken_anew_when_it_goes_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut tail = Tail::of(folder.path());
        assert_eq!(tail.more().unwrap(), []);
        let mut file = File::create(folder.path().join(EVENTS_FILE)).unwrap();
        let (first, second) = (encode(&epoch(1)), encode(&epoch(2)));
        let (half, other) = second.split_at(9);
        write!(file, "{first}{half}").unwrap();
        assert_eq!(tail.more().unwrap(), [epoch(1)]);
        assert_eq!(tail.more().unwrap(), []);
        write!(file, "{other}{}", encode(&epoch(3))).unwrap();
        assert_eq!(tail.more().unwrap(), [epoch(2), epoch(3)]);
        assert!(!tail.has_gone_back);
        file.set_len(first.len() as u64).unwrap();
        assert_eq!(tail.more().unwrap(), [epoch(1)]);
        assert!(tail.has_gone_back);
        assert_eq!(tail.more().unwrap(), []);
        assert!(!tail.has_gone_back);
        // Between two looks it has gone back and grown beyond where it was, to another place in a line.
        file.set_len(0).unwrap();
        file.rewind().unwrap();
        write!(file, "{}{first}", encode(&epoch(4_000_000))).unwrap();
        assert_eq!(tail.more().unwrap(), [epoch(4_000_000), epoch(1)]);
        assert!(tail.has_gone_back);
    }

    #[test]
    fn a_line_that_is_no_event_is_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(EVENTS_FILE), encode(&epoch(1)) + "{}\n").unwrap();
        let error = Tail::of(folder.path()).more().unwrap_err().to_string();
        assert!(error.contains("events.jsonl") && error.contains("line 2"), "{error}");
    }
}
