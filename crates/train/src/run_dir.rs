//! The directory of a run, and how files get into it.

mod error;
mod files;
mod lock;
mod log;
mod parts;
mod processes;
mod ranks;
mod undo;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use plimsoll_monitor::decode;
use plimsoll_probe::OomKills;
use plimsoll_types::Event;

pub use self::error::RunDirError;
pub(crate) use self::files::{io_error, sync_folder, write_atomically};
use self::log::EventLog;
pub use self::log::UNDONE_FILE;
pub(crate) use self::parts::log_bytes;
pub use self::parts::{EVENTS_FILE, log_files, log_tail, read_log, read_log_file, read_log_with};
pub use self::processes::{PROCESSES_FILE, Process, Why, last_process};
pub(crate) use self::ranks::undo_in;
pub use self::ranks::{REFUSAL_FILE, folders_of_ranks};
use self::undo::Undo;

/// The resolved configuration inside a run directory.
pub const CONFIG_FILE: &str = "config.toml";

/// What to do about a run directory that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Refuse.
    Refuse,
    /// Delete it and start anew, if it holds a run.
    Overwrite,
    /// Go on from its last checkpoint.
    Resume,
}

/// A run directory with its log open at the end, for one writer at a time.
///
/// Until the first step or the end of the run is logged it can be undone: dropped before, it leaves the place as it was,
/// the run that it was to overwrite included.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    /// The directory of the whole run.
    root: PathBuf,
    log: EventLog,
    undo: Option<Undo>,
    /// The machine of each rank, where ranks are processes.
    machines: Vec<String>,
    /// How often the kernel has killed on this one's for want of memory.
    oom_kills: Option<OomKills>,
    /// What goes with this process, unless that is killed.
    note: Option<PathBuf>,
    _lock: File,
}

impl RunDir {
    /// Opens a directory for writing, making it where it is missing; waits up to 10 s for another process to end.
    ///
    /// # Errors
    ///
    /// [`RunDirError`] when it is there against the wish of `existing`, another process writes to it, or it cannot be
    /// written.
    pub fn open(path: &Path, existing: Existing) -> Result<Self, RunDirError> {
        Self::open_waiting(path, existing, &mut |_| ())
    }

    /// Opens a directory as [`Self::open`] does, and tells [`RunDirError::Locked`] when it begins to wait.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn open_waiting(
        path: &Path,
        existing: Existing,
        on_wait: &mut dyn FnMut(&RunDirError),
    ) -> Result<Self, RunDirError> {
        let holds_run = path.join(EVENTS_FILE).is_file();
        if path.exists() && !path.is_dir() {
            return Err(RunDirError::NoFolder(path.to_owned()));
        }
        match existing {
            Existing::Resume if !holds_run => Err(RunDirError::NoRun(path.to_owned())),
            Existing::Refuse if Self::is_occupied(path) && !holds_run => Err(RunDirError::NotEmpty(path.to_owned())),
            Existing::Refuse if Self::is_occupied(path) => Err(RunDirError::Exists(path.to_owned())),
            Existing::Overwrite if Self::is_occupied(path) && !holds_run => Err(RunDirError::NotOurs(path.to_owned())),
            Existing::Resume => Self::begin(path, None, on_wait),
            Existing::Refuse | Existing::Overwrite => {
                // Nobody may write to what is put aside.
                let _old = if holds_run { Some(lock::take(path, lock::PATIENCE, on_wait)?) } else { None };
                Self::begin(path, Some(Undo::prepare(path, holds_run)?), on_wait)
            }
        }
    }

    fn begin(path: &Path, undo: Option<Undo>, on_wait: &mut dyn FnMut(&RunDirError)) -> Result<Self, RunDirError> {
        let mut lock_and_log = || {
            fs::create_dir_all(path).map_err(|source| io_error("create", path, source))?;
            Ok((lock::take(path, lock::PATIENCE, on_wait)?, EventLog::open(path, undo.is_some())?))
        };
        match lock_and_log() {
            Ok((lock, log)) => {
                let (path, root, machines) = (path.to_owned(), path.to_owned(), Vec::new());
                Ok(Self { path, root, log, undo, machines, oom_kills: None, note: None, _lock: lock })
            }
            // Another process was faster, and the place is its own.
            Err(error @ (RunDirError::Locked { .. } | RunDirError::Exists(_))) => Err(error),
            Err(error) => {
                if let Some(undo) = undo {
                    undo.run(path);
                }
                Err(error)
            }
        }
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the directory of the whole run, which the ranks have in common.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns what leaves the place as it was where the process ends at once before the run has begun, whoever ends it; a
    /// run that goes on stays.
    pub fn undoing(&self) -> impl FnOnce() + Send + 'static {
        let (path, undo) = (self.path.clone(), self.undo.clone());
        move || {
            if let Some(undo) = undo {
                undo.run(&path);
            }
        }
    }

    /// Appends events to the log, in one write, and returns the lines that it has of them.
    ///
    /// # Errors
    ///
    /// [`RunDirError::Io`]; the log ends with a whole line then, as it did before.
    pub fn log(&mut self, events: &[Event]) -> Result<&[u8], RunDirError> {
        self.log.append(events)?;
        if events.iter().any(|it| matches!(it, Event::StepDone(_) | Event::RunEnded(_))) {
            self.keep();
        }
        Ok(self.log.last_lines())
    }

    /// The run has begun: what it replaces goes for good.
    fn keep(&mut self) {
        if let Some(replaced) = self.undo.take().and_then(|it| it.replaced) {
            // What cannot be deleted stays under its other name, where it is in nobody's way.
            drop(fs::remove_dir_all(replaced));
        }
    }

    /// Whether a process writes to the run of a directory, as far as the file system tells.
    pub fn is_being_written(path: &Path) -> bool {
        lock::is_taken(path)
    }

    /// Whether a folder holds anything; a process that died before it wrote anything leaves its lock alone.
    pub fn is_occupied(path: &Path) -> bool {
        fs::read_dir(path).is_ok_and(|entries| entries.flatten().any(|it| it.file_name() != lock::FILE))
    }

    /// Reads the log back; a last line that a kill cut short is left out.
    ///
    /// # Errors
    ///
    /// [`RunDirError::Log`] for a damaged line before the last.
    pub fn events(&self) -> Result<Vec<Event>, RunDirError> {
        Ok(read_log(&self.path)?.events)
    }

    /// Returns the length of the log in bytes: the mark that a checkpoint notes.
    pub(crate) fn mark(&self) -> u64 {
        self.log.n_bytes()
    }

    /// Moves what the log says after a mark to `undone.jsonl`, and returns those events.
    pub(crate) fn undo_after(&mut self, mark: u64) -> Result<Vec<Event>, RunDirError> {
        self.log.undo_after(mark)
    }

    /// Returns the last event that processes before this one have undone.
    pub(crate) fn last_undone(&self) -> Result<Option<Event>, RunDirError> {
        let path = self.path.join(UNDONE_FILE);
        let undone = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            undone => undone.map_err(|source| io_error("read", &path, source))?,
        };
        // A line that a kill cut short is followed by others all the same.
        let lines = undone.rsplit(|it| *it == b'\n').filter_map(|it| std::str::from_utf8(it).ok());
        Ok(lines.filter_map(|it| decode(it).ok()).find_map(|mut log| log.events.pop()))
    }

    /// Notes in `processes.jsonl` that this process works on the run.
    pub(crate) fn note_process(&self, step: u64, why: Why, undone_steps: u64) -> Result<(), RunDirError> {
        processes::note(&self.path, (step, why, undone_steps), (&self.machines, self.oom_kills))
    }

    /// Writes a file under a temporary name and renames it, so that it is there whole or not at all.
    ///
    /// # Errors
    ///
    /// [`RunDirError::Io`].
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), RunDirError> {
        write_atomically(&self.path.join(name), content)
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        if let Some(note) = self.note.take() {
            // What cannot be deleted is empty, and the next process writes it anew.
            drop(fs::remove_file(note));
        }
        if let Some(undo) = self.undo.take() {
            undo.run(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use plimsoll_types::EpochDone;

    use super::*;

    fn epoch(step: u64) -> Event {
        Event::EpochDone(EpochDone { epoch: 0, step, samples: 4, dropped: 0 })
    }

    /// Makes a run that has begun.
    fn begun(path: &Path, existing: Existing) -> RunDir {
        let mut run = RunDir::open(path, existing).unwrap();
        run.log(&[epoch(1)]).unwrap();
        run.keep();
        run
    }

    #[test]
    fn a_run_that_does_not_begin_leaves_the_place_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let (deep, empty) = (folder.path().join("a/b/run"), folder.path().join("empty"));
        fs::create_dir(&empty).unwrap();
        drop(RunDir::open(&deep, Existing::Refuse).unwrap());
        drop(RunDir::open(&empty, Existing::Refuse).unwrap());
        assert!(!folder.path().join("a").exists() && empty.is_dir() && !RunDir::is_occupied(&empty));
        let old = folder.path().join("old");
        drop(begun(&old, Existing::Refuse));
        drop(RunDir::open(&old, Existing::Overwrite).unwrap());
        assert_eq!(RunDir::open(&old, Existing::Resume).unwrap().events().unwrap(), [epoch(1)]);
    }

    #[test]
    fn a_run_that_is_there_is_refused_resumed_or_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let error = RunDir::open(&path, Existing::Resume).unwrap_err();
        assert!(matches!(error, RunDirError::NoRun(_)), "{error}");
        drop(begun(&path, Existing::Refuse));
        let error = RunDir::open(&path, Existing::Refuse).unwrap_err();
        assert!(matches!(error, RunDirError::Exists(_)), "{error}");
        let mut resumed = RunDir::open(&path, Existing::Resume).unwrap();
        resumed.log(&[epoch(2)]).unwrap();
        assert_eq!(resumed.events().unwrap().len(), 2);
        drop(resumed);
        assert_eq!(begun(&path, Existing::Overwrite).events().unwrap().len(), 1);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "the replaced run is still there");
    }

    #[test]
    fn overwriting_never_deletes_what_is_no_run() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.tex"), "years of work").unwrap();
        let error = RunDir::open(folder.path(), Existing::Overwrite).unwrap_err();
        assert!(matches!(error, RunDirError::NotOurs(_)), "{error}");
        assert!(folder.path().join("thesis.tex").exists());
    }

    #[test]
    fn what_follows_a_mark_is_moved_a_line_that_was_cut_short_included() {
        let folder = tempfile::tempdir().unwrap();
        let mut run = RunDir::open(folder.path(), Existing::Refuse).unwrap();
        run.log(&[epoch(1)]).unwrap();
        let mark = run.mark();
        run.log(&[epoch(2), epoch(3)]).unwrap();
        run.keep();
        drop(run);
        let mut file = File::options().append(true).open(folder.path().join(EVENTS_FILE)).unwrap();
        file.write_all(b"{\"event\":\"epoch_d").unwrap();
        let mut run = RunDir::open(folder.path(), Existing::Resume).unwrap();
        assert_eq!(run.events().unwrap(), [epoch(1), epoch(2), epoch(3)]);
        assert_eq!(run.undo_after(mark).unwrap(), [epoch(2), epoch(3)]);
        run.log(&[epoch(4)]).unwrap();
        assert_eq!(run.undo_after(mark).unwrap(), [epoch(4)]);
        run.log(&[epoch(5)]).unwrap();
        assert_eq!(run.events().unwrap(), [epoch(1), epoch(5)]);
        assert_eq!(run.last_undone().unwrap(), Some(epoch(4)));
        let undone = fs::read_to_string(folder.path().join(UNDONE_FILE)).unwrap();
        let ends: Vec<_> = undone.lines().map(|line| line.chars().last().unwrap()).collect();
        assert_eq!(ends, ['}', '}', 'd', '}'], "{undone}");
    }

    #[test]
    fn a_run_that_was_killed_before_its_first_step_gives_back_what_it_was_to_overwrite() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        drop(begun(&path, Existing::Refuse));
        let mut killed = RunDir::open(&path, Existing::Overwrite).unwrap();
        killed.undo = None;
        drop(killed);
        drop(RunDir::open(&path, Existing::Overwrite).unwrap());
        assert_eq!(RunDir::open(&path, Existing::Resume).unwrap().events().unwrap(), [epoch(1)]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
