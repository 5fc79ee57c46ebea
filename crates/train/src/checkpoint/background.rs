//! How a checkpoint that is written becomes one, while the run goes on.

use std::fs;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::thread::{Builder, JoinHandle};

use plimsoll_files::sync_file;
use plimsoll_probe::count_beside;

use super::folder::{self, Best, prune};
use super::{CheckpointError, STATE, WEIGHTS, checksums};
use crate::run_dir::{EVENTS_FILE, RunDirError, io_error, log_files};

/// A checkpoint whose files are written, and are on the disk only once they are flushed; it has no name yet.
///
/// Holds no tensor: nothing but where the files are.
#[derive(Clone, Debug)]
pub(crate) struct Unpublished {
    pub(super) run_dir: PathBuf,
    /// Where the files are.
    pub(super) folder: PathBuf,
    pub(super) step: u64,
    /// How many checkpoints stay beside the best.
    pub(super) keep: usize,
    pub(super) best: Option<Best>,
}

impl Unpublished {
    /// Flushes the log and the files to the disk, adds their checksums, gives the checkpoint its name, and removes all but
    /// the last ones and the best.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`]; earlier checkpoints are untouched then, and nothing of this one stays.
    pub(crate) fn publish(self) -> Result<(), CheckpointError> {
        match self.named() {
            Ok(()) => prune(&self.run_dir, self.keep, self.best.as_ref()),
            Err(error) => Err(self.discarded(error.into())),
        }
    }

    fn named(&self) -> Result<(), RunDirError> {
        // The files of the log before its last one are on the disk already.
        let log = log_files(&self.run_dir).pop().unwrap_or_else(|| self.run_dir.join(EVENTS_FILE));
        for path in [log, self.folder.join(WEIGHTS), self.folder.join(STATE)] {
            sync_file(&path).map_err(|source| io_error("flush", &path, source))?;
        }
        checksums::write(&self.folder)?;
        folder::publish(&self.run_dir, &self.folder, self.step)
    }

    /// Removes what is written.
    pub(super) fn discarded(&self, error: CheckpointError) -> CheckpointError {
        // The error says more than a folder that cannot be removed either; the next checkpoint removes it.
        drop(fs::remove_dir_all(&self.folder));
        error
    }
}

/// Publishes checkpoints beside the steps, one at a time.
///
/// Dropping it waits.
#[derive(Debug, Default)]
pub(crate) struct Background(Option<JoinHandle<Result<(), CheckpointError>>>);

impl Background {
    /// Begins to publish a checkpoint; the caller has waited for the one before.
    ///
    /// # Errors
    ///
    /// Those of [`Unpublished::publish`], where the system has no room for a thread and it is done at once.
    pub(crate) fn begin(&mut self, unpublished: Unpublished) -> Result<(), CheckpointError> {
        let own = unpublished.clone();
        let work = move || {
            count_beside();
            own.publish()
        };
        match Builder::new().name("checkpoint".to_owned()).spawn(work) {
            Ok(thread) => self.0 = Some(thread),
            Err(_) => unpublished.publish()?,
        }
        Ok(())
    }

    /// Waits until there is no checkpoint that is not published.
    ///
    /// # Errors
    ///
    /// Those of [`Unpublished::publish`].
    pub(crate) fn wait(&mut self) -> Result<(), CheckpointError> {
        let Some(thread) = self.0.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Says how publishing ended, if it has.
    ///
    /// # Errors
    ///
    /// Those of [`Unpublished::publish`].
    pub(crate) fn check(&mut self) -> Result<(), CheckpointError> {
        if self.0.as_ref().is_some_and(JoinHandle::is_finished) { self.wait() } else { Ok(()) }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // What has ended the run says more.
        drop(self.0.take().map(JoinHandle::join));
    }
}
