//! A run that another process writes, followed.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_monitor::{Decoder, Pace, Progress};
use plimsoll_train::{RunDir, log_files};
use plimsoll_types::{EndReason, Event, RunEnded};

use super::recorded::{check, headless, is_foreign, no_log};
use crate::display::Display;
use crate::exit::{UserError, user_error};

/// Time between two looks.
const EVERY: Duration = Duration::from_millis(200);
/// Bytes of a log that are read at once.
const BLOCK: u64 = 1 << 20;
/// How long nobody may write before the run is taken for dead: a worker that died is started again sooner.
const PATIENCE: Duration = Duration::from_secs(10);

/// Shows what a run does until it ends, or nobody writes it any more.
pub(super) fn watch(run: &Path) -> anyhow::Result<ExitCode> {
    let ended = follow(run, PATIENCE)?;
    println!("{}: {} after {} steps", run.display(), how(ended.reason), ended.step);
    Ok(ExitCode::SUCCESS)
}

/// Shows what a run does, and returns how it ended, or why no more is to be expected.
fn follow(run: &Path, patience: Duration) -> anyhow::Result<RunEnded> {
    check(run)?;
    let mut tail = Tail::of(run);
    let (mut watched, mut last) = (Watched::new(), Instant::now());
    loop {
        let is_new = tail.more(&mut watched)?;
        watched.catch_up();
        if watched.is_headless {
            return Err(headless(run).into());
        }
        if let Some(ended) = watched.ended {
            return Ok(ended);
        }
        if is_new || RunDir::is_being_written(run) {
            last = Instant::now();
        } else if is_foreign(run) {
            return Err(no_log(run).into());
        }
        if patience < last.elapsed() {
            let (path, seconds) = (run.display(), patience.as_secs());
            if watched.progress.is_none() {
                let what = format!("watch {path}: no run yet: nobody has begun one for {seconds} s; {BEGIN}");
                return Err(user_error(what).into());
            }
            anyhow::bail!("watch {path}: nobody has written it for {seconds} s, and it has not ended; {GO_ON}");
        }
        thread::sleep(EVERY);
    }
}

/// What makes a run to watch.
const BEGIN: &str = "`train --out DIR` begins one";

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
    /// The end, where nothing follows.
    ended: Option<RunEnded>,
    /// Whether what is heard was there before, or comes again: of that only where it ends is shown.
    is_behind: bool,
    /// Whether an event came before the head of the run, without which nothing can be shown.
    is_headless: bool,
}

impl Watched {
    fn new() -> Self {
        let display = Display::of_another();
        let (progress, pace, work, ended) = (None, Pace::default(), (0, 0.0), None);
        Self { display, progress, pace, work, ended, is_behind: true, is_headless: false }
    }

    /// Shows where the run stands, once what was before is heard.
    fn catch_up(&mut self) {
        let is_behind = std::mem::replace(&mut self.is_behind, false);
        if let Some(progress) = self.progress.as_ref().filter(|_| is_behind && 0 < self.work.0) {
            self.display.draw(progress);
        }
    }

    fn take(&mut self, event: &Event) {
        if let Event::RunStarted(start) = event {
            self.progress = Some(Progress::of(start));
        }
        let Some(progress) = &mut self.progress else {
            self.is_headless = true;
            return;
        };
        progress.hear(event);
        if let Event::StepDone(done) = event {
            self.pace.step(done.seconds);
            self.work = (self.work.0 + done.n_samples(), self.work.1 + done.seconds);
            if 0.0 < self.work.1 {
                progress.samples_per_second = self.work.0 as f64 / self.work.1;
            }
            let left = progress.n_steps.saturating_sub(progress.step) as f64;
            progress.seconds_left = self.pace.of_step().map(|it| it * left);
        }
    }
}

impl Follow for Watched {
    fn begin_again(&mut self) {
        (self.progress, self.pace, self.work, self.ended) = (None, Pace::default(), (0, 0.0), None);
        self.display.forget();
        (self.is_behind, self.is_headless) = (true, false);
    }

    fn hear(&mut self, event: &Event) {
        self.ended = if let Event::RunEnded(it) = event { Some(*it) } else { None };
        self.take(event);
        match &self.progress {
            Some(progress) if !self.is_behind => self.display.show(event, progress),
            _ => self.display.take(event),
        }
    }
}

/// Who follows a log.
trait Follow {
    /// What was heard is void: all of the log comes again.
    fn begin_again(&mut self);

    fn hear(&mut self, event: &Event);
}

/// The end of a log that grows.
struct Tail {
    run: PathBuf,
    /// Files of the log that were read to their end.
    n_files: usize,
    /// Bytes that were read of the one after them.
    n_read: u64,
    /// Its lines so far.
    decoder: Decoder,
    /// A line that is not whole yet.
    rest: Vec<u8>,
}

impl Tail {
    fn of(run: &Path) -> Self {
        Self { run: run.to_owned(), n_files: 0, n_read: 0, decoder: Decoder::default(), rest: Vec::new() }
    }

    /// Tells what was added since, and whether anything was; a run that has not begun yet has no log. Where the log has become
    /// shorter, because steps are done again, all of it is new.
    fn more(&mut self, follower: &mut dyn Follow) -> Result<bool, UserError> {
        let files = log_files(&self.run);
        let length = |at: usize| files.get(at).and_then(|it| it.metadata().ok()).map_or(0, |it| it.len());
        let is_gone = 0 < self.n_files && files.len() <= self.n_files;
        let has_gone_back = is_gone || length(self.n_files) < self.n_read;
        if has_gone_back {
            self.go_back(follower);
        }
        match self.read(&files, follower) {
            // One that went back and has grown again since is in the middle of a line.
            Err(_) if !has_gone_back => self.go_back(follower),
            read => return read,
        }
        self.read(&files, follower)
    }

    fn go_back(&mut self, follower: &mut dyn Follow) {
        *self = Self::of(&self.run);
        follower.begin_again();
    }

    /// Reads on in files that are in order; only the last of them grows.
    fn read(&mut self, files: &[PathBuf], follower: &mut dyn Follow) -> Result<bool, UserError> {
        let mut is_new = false;
        while let Some(path) = files.get(self.n_files) {
            let failed = |error: &dyn fmt::Display| user_error(format!("read {}: {error}", path.display()));
            while 0 < self.take(path).map_err(|error| failed(&error))? {
                let whole = self.rest.iter().rposition(|it| *it == b'\n').map_or(0, |at| at + 1);
                for line in self.rest[..whole].split_inclusive(|it| *it == b'\n') {
                    let event = self.decoder.line(line).map_err(|error| failed(&error))?;
                    is_new |= event.is_some();
                    if let Some(event) = &event {
                        follower.hear(event);
                    }
                }
                self.rest.drain(..whole);
            }
            if self.n_files + 1 == files.len() {
                break;
            }
            (self.n_files, self.n_read, self.decoder) = (self.n_files + 1, 0, Decoder::default());
        }
        Ok(is_new)
    }

    /// Takes the next bytes of a file, and returns how many there were.
    fn take(&mut self, path: &Path) -> io::Result<u64> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(self.n_read))?;
        let n = file.take(BLOCK).read_to_end(&mut self.rest)? as u64;
        self.n_read += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use plimsoll_monitor::encode;
    use plimsoll_train::EVENTS_FILE;
    use plimsoll_types::EpochDone;

    use super::*;

    /// What a look tells, and whether it tells all of the log again.
    #[derive(Debug, Default, PartialEq)]
    struct Heard(Vec<Event>, bool);

    impl Follow for Heard {
        fn begin_again(&mut self) {
            *self = Self(Vec::new(), true);
        }

        fn hear(&mut self, event: &Event) {
            self.0.push(event.clone());
        }
    }

    fn more(tail: &mut Tail) -> Heard {
        let mut heard = Heard::default();
        assert_eq!(tail.more(&mut heard).unwrap(), !heard.0.is_empty());
        heard
    }

    fn epoch(epoch: u64) -> Event {
        Event::EpochDone(EpochDone { epoch, step: 3, samples: 9, dropped: 0 })
    }

    #[test]
    fn a_log_is_followed_line_by_line_and_taken_anew_when_it_goes_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut tail = Tail::of(folder.path());
        assert_eq!(more(&mut tail), Heard(vec![], false));
        let mut file = File::create(folder.path().join(EVENTS_FILE)).unwrap();
        let (first, second) = (encode(&epoch(1)), encode(&epoch(2)));
        let (half, other) = second.split_at(9);
        write!(file, "{first}{half}").unwrap();
        assert_eq!(more(&mut tail), Heard(vec![epoch(1)], false));
        assert_eq!(more(&mut tail), Heard(vec![], false));
        write!(file, "{other}{}", encode(&epoch(3))).unwrap();
        assert_eq!(more(&mut tail), Heard(vec![epoch(2), epoch(3)], false));
        file.set_len(first.len() as u64).unwrap();
        assert_eq!(more(&mut tail), Heard(vec![epoch(1)], true));
        assert_eq!(more(&mut tail), Heard(vec![], false));
        // Between two looks it has gone back and grown beyond where it was, to another place in a line.
        file.set_len(0).unwrap();
        file.rewind().unwrap();
        write!(file, "{}{first}", encode(&epoch(4_000_000))).unwrap();
        assert_eq!(more(&mut tail), Heard(vec![epoch(4_000_000), epoch(1)], true));
    }

    #[test]
    fn a_log_that_goes_on_in_another_file_is_followed_there_and_back() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join(EVENTS_FILE), folder.path().join("events.1.jsonl"));
        let mut tail = Tail::of(folder.path());
        std::fs::write(&first, encode(&epoch(1)) + &encode(&epoch(2))).unwrap();
        assert_eq!(more(&mut tail), Heard(vec![epoch(1), epoch(2)], false));
        std::fs::write(&second, encode(&epoch(3))).unwrap();
        assert_eq!(more(&mut tail), Heard(vec![epoch(3)], false));
        assert_eq!(more(&mut tail), Heard(vec![], false));
        std::fs::remove_file(&second).unwrap();
        assert_eq!(more(&mut tail), Heard(vec![epoch(1), epoch(2)], true));
    }

    #[test]
    fn a_folder_where_nobody_begins_a_run_has_none_yet() {
        let folder = tempfile::tempdir().unwrap();
        let watched = || follow(folder.path(), Duration::from_secs(1)).unwrap_err().to_string();
        for error in [watched(), std::fs::write(folder.path().join(EVENTS_FILE), "").map(|()| watched()).unwrap()] {
            assert!(error.contains("no run yet: nobody has begun one for 1 s; `train --out DIR`"), "{error}");
        }
    }

    #[test]
    fn a_line_that_is_no_event_is_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(EVENTS_FILE), encode(&epoch(1)) + "{}\n").unwrap();
        let error = Tail::of(folder.path()).more(&mut Heard::default()).unwrap_err().to_string();
        assert!(error.contains("events.jsonl") && error.contains("line 2"), "{error}");
    }
}
