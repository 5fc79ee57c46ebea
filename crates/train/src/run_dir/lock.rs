//! One writer at a time.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{process, thread};

use super::{RunDirError, io_error};

/// The file whose lock is the right to write.
pub(super) const FILE: &str = "lock";
/// How long a process that is told to end may take to save its checkpoint and write its reports.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);

/// Waits until nobody else writes to a folder, and says so when it begins to wait; the lock ends with the file, and with
/// the process however it ends.
pub(super) fn take(
    folder: &Path,
    patience: Duration,
    on_wait: &mut dyn FnMut(&RunDirError),
) -> Result<File, RunDirError> {
    let path = folder.join(FILE);
    let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let mut file = opened.map_err(|source| io_error("write", &path, source))?;
    let begun = Instant::now();
    let mut is_told = false;
    loop {
        match file.try_lock() {
            Ok(()) => {
                // Whom others wait for; one that cannot be named is waited for all the same.
                drop(file.set_len(0).and_then(|()| writeln!(file, "{}", process::id())));
                return Ok(file);
            }
            Err(TryLockError::WouldBlock) if begun.elapsed() < patience => {
                if !is_told {
                    on_wait(&locked(folder));
                    is_told = true;
                }
                thread::sleep(PAUSE);
            }
            Err(TryLockError::WouldBlock) => return Err(locked(folder)),
            // There are file systems without locks, and runs on them all the same.
            Err(TryLockError::Error(source)) if source.kind() == ErrorKind::Unsupported => return Ok(file),
            Err(TryLockError::Error(source)) => return Err(io_error("lock", &path, source)),
        }
    }
}

/// Whether somebody writes to a folder; where nobody can tell, nobody is said to.
pub(super) fn is_taken(folder: &Path) -> bool {
    // Held for a moment only, which whoever wants to write waits for.
    File::open(folder.join(FILE)).is_ok_and(|it| matches!(it.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Names the process that holds the lock, where it has left its number.
fn locked(folder: &Path) -> RunDirError {
    let process = fs::read_to_string(folder.join(FILE)).ok().and_then(|it| it.trim().parse().ok());
    RunDirError::Locked { path: folder.to_owned(), process }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_writer_waits_and_is_refused_by_the_name_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let quiet = &mut |_: &RunDirError| ();
        assert!(!is_taken(folder.path()), "there is nothing yet");
        let first = take(folder.path(), Duration::ZERO, quiet).unwrap();
        assert!(is_taken(folder.path()));
        let mut told = Vec::new();
        let error = take(folder.path(), 3 * PAUSE, &mut |it| told.push(it.to_string())).unwrap_err().to_string();
        assert!(error.contains(&folder.path().display().to_string()), "{error}");
        assert!(error.contains(&format!("process {} writes to it", process::id())), "{error}");
        assert_eq!(told, [error]);
        let waits = thread::scope(|scope| {
            let second = scope.spawn(|| take(folder.path(), PATIENCE, &mut |_| ()));
            thread::sleep(2 * PAUSE);
            drop(first);
            second.join().unwrap()
        });
        assert!(waits.is_ok(), "{waits:?}");
        drop(waits);
        assert!(!is_taken(folder.path()));
    }
}
