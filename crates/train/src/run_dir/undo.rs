//! A run that does not begin leaves the place as it was.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::{EVENTS_FILE, RunDirError, io_error};

/// How often it is tried to remove a folder, and how long is waited in between.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(10);

/// What must be undone when a run does not begin.
#[derive(Clone, Debug)]
pub(super) struct Undo {
    /// The topmost folder that was made, or the run directory itself where it was there and empty.
    made: PathBuf,
    was_there: bool,
    /// Where the run that is being overwritten waits.
    pub(super) replaced: Option<PathBuf>,
}

impl Undo {
    /// Notes what is there, and puts a run that is to be overwritten aside.
    pub(super) fn prepare(path: &Path, holds_run: bool) -> Result<Self, RunDirError> {
        if holds_run {
            let replaced = Some(put_aside(path)?);
            return Ok(Self { made: path.to_owned(), was_there: false, replaced });
        }
        let missing = path.ancestors().take_while(|it| !it.as_os_str().is_empty() && !it.exists()).last();
        Ok(Self { made: missing.unwrap_or(path).to_owned(), was_there: missing.is_none(), replaced: None })
    }

    /// Leaves the place as it was; what cannot be removed does no harm.
    pub(super) fn run(&self, path: &Path) {
        // Another thread may be writing into it until it is gone.
        for _ in 0..TRIES {
            if fs::remove_dir_all(path).is_ok() || !path.exists() {
                break;
            }
            thread::sleep(PAUSE);
        }
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

/// Puts a run out of the way of the one that overwrites it, until that one has begun.
///
/// Where one waits already, the run in its place was killed: before its first step it is worth nothing, and later it is
/// the other that is.
fn put_aside(path: &Path) -> Result<PathBuf, RunDirError> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".replaced");
    let aside = PathBuf::from(aside);
    let waits = aside.join(EVENTS_FILE).is_file();
    let worthless = if has_begun(path) { &aside } else { path };
    if waits {
        fs::remove_dir_all(worthless).map_err(|source| io_error("delete", worthless, source))?;
    }
    if path.exists() {
        fs::rename(path, &aside).map_err(|source| io_error("move aside", path, source))?;
    }
    Ok(aside)
}

fn has_begun(path: &Path) -> bool {
    let log = fs::read_to_string(path.join(EVENTS_FILE)).unwrap_or_default();
    [r#""event":"step_done""#, r#""event":"run_ended""#].iter().any(|it| log.contains(it))
}
