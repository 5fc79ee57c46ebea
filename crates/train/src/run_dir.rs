//! The directory of a run, and how files get into it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use plimsoll_monitor::{Log, LogError, decode, encode};
use plimsoll_types::Event;

/// What can go wrong with a run directory.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// Something is there already.
    #[error("write to {}: it exists already; pass `--resume` to go on from its last checkpoint, or `--overwrite` to start anew", .0.display())]
    Exists(PathBuf),
    /// A file stands in its place.
    #[error("write to {}: it is no folder", .0.display())]
    NoFolder(PathBuf),
    /// There is no run to go on with.
    #[error("resume {}: there is no run to resume, it has no `events.jsonl`", .0.display())]
    NoRun(PathBuf),
    /// The directory is not one of ours.
    #[error("overwrite {}: it is not empty and holds no run, so it is not deleted", .0.display())]
    NotOurs(PathBuf),
    /// A file cannot be written or read.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The log of the run is damaged.
    #[error("read {}: {source}", path.display())]
    Log {
        /// The log.
        path: PathBuf,
        /// The line.
        source: LogError,
    },
}

/// The name of the log inside a run directory.
pub const EVENTS_FILE: &str = "events.jsonl";
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

/// A run directory with its log open at the end.
///
/// Until the first step or the end of the run is logged it can be undone: dropped before, it leaves the place as it was, the run that it was
/// to overwrite included.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    events: File,
    undo: Option<Undo>,
}

/// What must be undone when a run does not begin.
#[derive(Debug)]
struct Undo {
    /// The topmost folder that was made, or the run directory itself where it was there and empty.
    made: PathBuf,
    was_there: bool,
    /// Where the run that is being overwritten waits.
    replaced: Option<PathBuf>,
}

impl RunDir {
    /// Opens a directory for writing, making it where it is missing.
    ///
    /// # Errors
    ///
    /// [`RunDirError`] when it is there against the wish of `existing`, or cannot be written.
    pub fn open(path: &Path, existing: Existing) -> Result<Self, RunDirError> {
        let holds_run = path.join(EVENTS_FILE).is_file();
        if path.exists() && !path.is_dir() {
            return Err(RunDirError::NoFolder(path.to_owned()));
        }
        let mut undo = None;
        match existing {
            Existing::Resume if !holds_run => return Err(RunDirError::NoRun(path.to_owned())),
            Existing::Resume => (),
            Existing::Refuse if occupied(path) => return Err(RunDirError::Exists(path.to_owned())),
            Existing::Overwrite if occupied(path) && !holds_run => return Err(RunDirError::NotOurs(path.to_owned())),
            Existing::Refuse | Existing::Overwrite => undo = Some(Undo::prepare(path, holds_run)?),
        }
        let events_path = path.join(EVENTS_FILE);
        let opened = fs::create_dir_all(path).map_err(|source| io_error("create", path, source)).and_then(|()| {
            let opened = OpenOptions::new().create(true).append(true).open(&events_path);
            opened.map_err(|source| io_error("write", &events_path, source))
        });
        match (opened, undo) {
            (Ok(events), undo) => Ok(Self { path: path.to_owned(), events, undo }),
            (Err(error), undo) => {
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

    /// Appends events to the log, in one write.
    ///
    /// # Errors
    ///
    /// [`RunDirError::Io`].
    pub fn log(&mut self, events: &[Event]) -> Result<(), RunDirError> {
        let lines: String = events.iter().map(encode).collect();
        let written = self.events.write_all(lines.as_bytes());
        written.map_err(|source| io_error("write", &self.path.join(EVENTS_FILE), source))?;
        if events.iter().any(|it| matches!(it, Event::StepDone(_) | Event::RunEnded(_))) {
            self.keep();
        }
        Ok(())
    }

    /// The run has begun: what it replaces goes for good.
    fn keep(&mut self) {
        if let Some(replaced) = self.undo.take().and_then(|it| it.replaced) {
            // What cannot be deleted stays under its other name, where it is in nobody's way.
            drop(fs::remove_dir_all(replaced));
        }
    }

    /// Reads the log back; a line that a kill cut short is removed from the file first.
    ///
    /// # Errors
    ///
    /// [`RunDirError::Log`] for a damaged line before the last.
    pub fn events(&self) -> Result<Vec<Event>, RunDirError> {
        let path = self.path.join(EVENTS_FILE);
        let text = fs::read_to_string(&path).map_err(|source| io_error("read", &path, source))?;
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        if whole < text.len() {
            self.events.set_len(whole as u64).map_err(|source| io_error("mend", &path, source))?;
        }
        let Log { events, .. } = decode(&text[..whole]).map_err(|source| RunDirError::Log { path, source })?;
        Ok(events)
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
        if let Some(undo) = self.undo.take() {
            undo.run(&self.path);
        }
    }
}

impl Undo {
    /// Notes what is there, and puts a run that is to be overwritten aside.
    fn prepare(path: &Path, holds_run: bool) -> Result<Self, RunDirError> {
        let missing = path.ancestors().take_while(|it| !it.as_os_str().is_empty() && !it.exists()).last();
        let mut undo = Self { made: missing.unwrap_or(path).to_owned(), was_there: missing.is_none(), replaced: None };
        if holds_run {
            let mut aside = path.as_os_str().to_owned();
            aside.push(".replaced");
            let aside = PathBuf::from(aside);
            fs::rename(path, &aside).map_err(|source| io_error("move aside", path, source))?;
            undo = Self { made: path.to_owned(), was_there: false, replaced: Some(aside) };
        }
        Ok(undo)
    }

    /// Leaves the place as it was; what cannot be removed does no harm.
    fn run(&self, path: &Path) {
        drop(fs::remove_dir_all(path));
        // Folders above go only while they are empty: another run may have come to live there.
        for above in path.ancestors().skip(1).take_while(|it| it.starts_with(&self.made)) {
            drop(fs::remove_dir(above));
        }
        if self.was_there {
            drop(fs::create_dir(path));
        }
        if let Some(replaced) = &self.replaced {
            drop(fs::rename(replaced, path));
        }
    }
}

/// Writes a file under a temporary name, flushes it to the disk and renames it.
pub(crate) fn write_atomically(path: &Path, content: &[u8]) -> Result<(), RunDirError> {
    let temporary = path.with_extension("tmp");
    let write = || {
        let mut file = File::create(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|source| {
        // The temporary file is of no use to anybody; that it may be missing is fine.
        drop(fs::remove_file(&temporary));
        io_error("write", path, source)
    })
}

pub(crate) fn io_error(action: &'static str, path: &Path, source: io::Error) -> RunDirError {
    RunDirError::Io { action, path: path.to_owned(), source }
}

fn occupied(path: &Path) -> bool {
    match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_types::{EpochDone, RunResumed};

    use super::*;

    fn epoch(step: u64) -> Event {
        Event::EpochDone(EpochDone { epoch: 0, step, samples: 4 })
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
        assert!(!folder.path().join("a").exists() && empty.is_dir() && !occupied(&empty));
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
        resumed.log(&[Event::RunResumed(RunResumed { step: 1 })]).unwrap();
        assert_eq!(resumed.events().unwrap().len(), 2);
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
    fn a_line_that_was_cut_short_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut run = RunDir::open(folder.path(), Existing::Refuse).unwrap();
        run.log(&[epoch(1)]).unwrap();
        run.events.write_all(b"{\"event\":\"epoch_d").unwrap();
        assert_eq!(run.events().unwrap(), [epoch(1)]);
        run.log(&[epoch(2)]).unwrap();
        assert_eq!(run.events().unwrap(), [epoch(1), epoch(2)]);
    }
}
