//! The files of a log, which goes on in another one when it has grown long.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use plimsoll_monitor::{Decoder, Log, LogError};
use plimsoll_types::Event;

use super::{RunDirError, io_error};

/// The name of the log inside a run directory, or of its first file where it is long.
pub const EVENTS_FILE: &str = "events.jsonl";

/// Bytes from which on a log goes on in another file: some 400 000 steps of 32 samples, which an editor still opens.
pub(super) const LONGEST: u64 = 256 << 20;

/// Returns the path of a part of a log: `events.jsonl`, then `events.1.jsonl` and so on.
pub(super) fn part(run_dir: &Path, n: usize) -> PathBuf {
    if n == 0 { run_dir.join(EVENTS_FILE) } else { run_dir.join(format!("events.{n}.jsonl")) }
}

/// Returns the files of the log of a run directory, in order; none where there is no log.
pub fn log_files(run_dir: &Path) -> Vec<PathBuf> {
    std::iter::successors(Some(0), |n| Some(n + 1)).map(|n| part(run_dir, n)).take_while(|it| it.is_file()).collect()
}

/// Returns the length of a log in bytes, in all of its files.
pub(crate) fn log_bytes(run_dir: &Path) -> u64 {
    log_files(run_dir).iter().map(|it| fs::metadata(it).map_or(0, |it| it.len())).sum()
}

/// Reads the log of a run directory from all of its files; a last line that a kill cut short, or that is being written, is
/// left out.
///
/// # Errors
///
/// [`RunDirError::Io`] where there is no log or it cannot be read, [`RunDirError::Log`] for a line that is no event.
pub fn read_log(run_dir: &Path) -> Result<Log, RunDirError> {
    let mut events = Vec::new();
    let truncated = read_log_with(run_dir, &mut |event| events.push(event))?;
    Ok(Log { events, truncated })
}

/// Reads the log of a run directory line by line, and gives each event to whoever asks, in order; returns whether the last
/// line is cut short.
///
/// # Errors
///
/// As [`read_log`]; the events before the error were given.
pub fn read_log_with(run_dir: &Path, hear: &mut dyn FnMut(Event)) -> Result<bool, RunDirError> {
    let mut truncated = false;
    let first = part(run_dir, 0);
    let others = log_files(run_dir).into_iter().skip(1);
    for path in std::iter::once(first).chain(others) {
        if truncated {
            let problem = format!("the last line before {} is cut short", path.display());
            return Err(RunDirError::Log { path, source: LogError::BadLine { line: 1, problem } });
        }
        truncated = read_log_file(&path, hear)?;
    }
    Ok(truncated)
}

/// Reads one file of a log as [`read_log_with`] reads all of them.
///
/// # Errors
///
/// As [`read_log`].
pub fn read_log_file(path: &Path, hear: &mut dyn FnMut(Event)) -> Result<bool, RunDirError> {
    let failed = |source| io_error("read", path, source);
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    let (mut decoder, mut line) = (Decoder::default(), Vec::new());
    while 0 < file.read_until(b'\n', &mut line).map_err(failed)? {
        let event = decoder.line(&line).map_err(|source| RunDirError::Log { path: path.to_owned(), source })?;
        event.into_iter().for_each(&mut *hear);
        line.clear();
    }
    Ok(decoder.truncated)
}

/// Reads the last bytes of a log, of so many at most; the first line may be a part of one.
///
/// # Errors
///
/// What the system says.
pub fn log_tail(run_dir: &Path, most: u64) -> io::Result<Vec<u8>> {
    let (mut tail, mut left) = (Vec::new(), most);
    for path in log_files(run_dir).iter().rev() {
        let length = fs::metadata(path)?.len();
        let before = std::mem::replace(&mut tail, from(path, length.saturating_sub(left))?);
        tail.extend(before);
        left = left.saturating_sub(length);
        if left == 0 {
            break;
        }
    }
    Ok(tail)
}

/// Reads a file from a place on.
pub(super) fn from(path: &Path, at: u64) -> io::Result<Vec<u8>> {
    let (mut file, mut bytes) = (File::open(path)?, Vec::new());
    file.seek(SeekFrom::Start(at))?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
