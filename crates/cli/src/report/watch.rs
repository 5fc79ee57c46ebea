//! A run that another process writes, followed.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_monitor::{Pace, Progress, decode_bytes};
use plimsoll_train::{RunDir, log_files};
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
        watched.see(&events, is_first || tail.has_gone_back);
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

    /// Shows what is new; of what was before, or comes again, only where it ends.
    fn see(&mut self, events: &[Event], is_before: bool) {
        if is_before {
            return self.catch_up(events);
        }
        for event in events {
            self.hear(event);
        }
    }

    /// Takes over what was before, and shows only where the run stands.
    fn catch_up(&mut self, events: &[Event]) {
        (self.progress, self.pace, self.work) = (None, Pace::default(), (0, 0.0));
        for event in events {
            self.take(event);
            self.display.take(event);
        }
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
    run: PathBuf,
    /// Files of the log that were read to their end.
    n_files: usize,
    /// Bytes that were read of the one after them.
    n_read: u64,
    /// A line that is not whole yet.
    rest: Vec<u8>,
    /// Whether the log has become shorter since, because steps are done again: what follows is all of it.
    has_gone_back: bool,
}

impl Tail {
    fn of(run: &Path) -> Self {
        Self { run: run.to_owned(), n_files: 0, n_read: 0, rest: Vec::new(), has_gone_back: false }
    }

    /// Returns what was added since; a run that has not begun yet has no log.
    fn more(&mut self) -> Result<Vec<Event>, UserError> {
        self.has_gone_back = false;
        let files = log_files(&self.run);
        let length = |at: usize| files.get(at).and_then(|it| it.metadata().ok()).map_or(0, |it| it.len());
        let is_gone = 0 < self.n_files && files.len() <= self.n_files;
        if is_gone || length(self.n_files) < self.n_read {
            self.go_back();
        }
        match self.read(&files) {
            // One that went back and has grown again since is in the middle of a line.
            Err(_) if (0, 0) != (self.n_files, self.n_read) && !self.has_gone_back => self.go_back(),
            events => return events,
        }
        self.read(&files)
    }

    fn go_back(&mut self) {
        (self.n_files, self.n_read, self.has_gone_back) = (0, 0, true);
        self.rest.clear();
    }

    /// Reads on in files that are in order; only the last of them grows.
    fn read(&mut self, files: &[PathBuf]) -> Result<Vec<Event>, UserError> {
        let mut events = Vec::new();
        while let Some(path) = files.get(self.n_files) {
            self.n_read += self.take(path).map_err(|error| user_error(format!("read {}: {error}", path.display())))?;
            let whole = self.rest.iter().rposition(|it| *it == b'\n').map_or(0, |at| at + 1);
            let log = decode_bytes(&self.rest[..whole]);
            events.extend(log.map_err(|error| user_error(format!("read {}: {error}", path.display())))?.events);
            self.rest.drain(..whole);
            if self.n_files + 1 == files.len() {
                break;
            }
            (self.n_files, self.n_read) = (self.n_files + 1, 0);
        }
        Ok(events)
    }

    /// Takes what is new in a file; returns its length.
    fn take(&mut self, path: &Path) -> io::Result<u64> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(self.n_read))?;
        Ok(file.read_to_end(&mut self.rest)? as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use plimsoll_monitor::encode;
    use plimsoll_train::EVENTS_FILE;
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
    fn a_log_that_goes_on_in_another_file_is_followed_there_and_back() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join(EVENTS_FILE), folder.path().join("events.1.jsonl"));
        let mut tail = Tail::of(folder.path());
        std::fs::write(&first, encode(&epoch(1)) + &encode(&epoch(2))).unwrap();
        assert_eq!(tail.more().unwrap(), [epoch(1), epoch(2)]);
        std::fs::write(&second, encode(&epoch(3))).unwrap();
        assert_eq!(tail.more().unwrap(), [epoch(3)]);
        assert_eq!(tail.more().unwrap(), []);
        std::fs::remove_file(&second).unwrap();
        assert_eq!(tail.more().unwrap(), [epoch(1), epoch(2)]);
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
