//! One writer at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::{RunDirError, io_error};

/// The file whose lock is the right to write.
pub(super) const FILE: &str = "lock";
/// How long a process that is told to end may take to save its checkpoint and write its reports.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);

/// Waits until nobody else writes to a folder; the lock ends with the file, and with the process however it ends.
pub(super) fn take(folder: &Path, patience: Duration) -> Result<File, RunDirError> {
    let path = folder.join(FILE);
    let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = opened.map_err(|source| io_error("write", &path, source))?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if begun.elapsed() < patience => thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => return Err(RunDirError::Locked(folder.to_owned())),
            // There are file systems without locks, and runs on them all the same.
            Err(TryLockError::Error(source)) if source.kind() == ErrorKind::Unsupported => return Ok(file),
            Err(TryLockError::Error(source)) => return Err(io_error("lock", &path, source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_writer_waits_and_is_refused_by_the_name_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let first = take(folder.path(), Duration::ZERO).unwrap();
        let error = take(folder.path(), 2 * PAUSE).unwrap_err().to_string();
        assert!(error.contains(&folder.path().display().to_string()), "{error}");
        let waits = thread::scope(|scope| {
            let second = scope.spawn(|| take(folder.path(), PATIENCE));
            thread::sleep(2 * PAUSE);
            drop(first);
            second.join().unwrap()
        });
        assert!(waits.is_ok(), "{waits:?}");
    }
}
