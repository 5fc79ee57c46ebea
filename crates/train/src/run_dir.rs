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
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    events: File,
}

impl RunDir {
    /// Opens a directory for writing, making it where it is missing.
    ///
    /// # Errors
    ///
    /// [`RunDirError`] when it is there against the wish of `existing`, or cannot be written.
    pub fn open(path: &Path, existing: Existing) -> Result<Self, RunDirError> {
        let holds_run = path.join(EVENTS_FILE).is_file();
        match existing {
            Existing::Resume if !holds_run => return Err(RunDirError::NoRun(path.to_owned())),
            Existing::Refuse if occupied(path) => return Err(RunDirError::Exists(path.to_owned())),
            Existing::Overwrite if holds_run => {
                fs::remove_dir_all(path).map_err(|source| io_error("delete", path, source))?;
            }
            Existing::Overwrite if occupied(path) => return Err(RunDirError::NotOurs(path.to_owned())),
            _ => (),
        }
        fs::create_dir_all(path).map_err(|source| io_error("create", path, source))?;
        let events_path = path.join(EVENTS_FILE);
        let opened = OpenOptions::new().create(true).append(true).open(&events_path);
        let events = opened.map_err(|source| io_error("write", &events_path, source))?;
        Ok(Self { path: path.to_owned(), events })
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
        written.map_err(|source| io_error("write", &self.path.join(EVENTS_FILE), source))
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
        Err(_) => path.exists(),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_types::{EpochDone, RunResumed};

    use super::*;

    fn epoch(step: u64) -> Event {
        Event::EpochDone(EpochDone { epoch: 0, step, samples: 4 })
    }

    #[test]
    fn a_run_that_is_there_is_refused_resumed_or_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let error = RunDir::open(&path, Existing::Resume).unwrap_err();
        assert!(matches!(error, RunDirError::NoRun(_)), "{error}");
        RunDir::open(&path, Existing::Refuse).unwrap().log(&[epoch(1)]).unwrap();
        let error = RunDir::open(&path, Existing::Refuse).unwrap_err();
        assert!(matches!(error, RunDirError::Exists(_)), "{error}");
        let mut resumed = RunDir::open(&path, Existing::Resume).unwrap();
        resumed.log(&[Event::RunResumed(RunResumed { step: 1 })]).unwrap();
        assert_eq!(resumed.events().unwrap().len(), 2);
        assert_eq!(RunDir::open(&path, Existing::Overwrite).unwrap().events().unwrap().len(), 0);
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
