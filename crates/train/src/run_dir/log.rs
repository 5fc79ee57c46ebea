//! The log of a run, open at its end.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use plimsoll_monitor::{Log, decode, decode_bytes, encode_into};
use plimsoll_types::Event;

use super::{RunDirError, io_error, sync_folder};

/// The name of the log inside a run directory.
pub const EVENTS_FILE: &str = "events.jsonl";
/// The events that did not happen after all, because a run went back to a checkpoint, inside its directory.
pub const UNDONE_FILE: &str = "undone.jsonl";

/// The lines of a run so far, each of them whole.
#[derive(Debug)]
pub(super) struct EventLog {
    path: PathBuf,
    file: File,
    n_bytes: u64,
    /// The lines of the last events, in room that is used again.
    lines: Vec<u8>,
}

impl EventLog {
    /// Opens the log of a run directory; a new one must not be there yet.
    pub(super) fn open(run_dir: &Path, is_new: bool) -> Result<Self, RunDirError> {
        let path = run_dir.join(EVENTS_FILE);
        let opened = OpenOptions::new().append(true).create(true).create_new(is_new).open(&path);
        let file = opened.map_err(|source| match source.kind() {
            ErrorKind::AlreadyExists => RunDirError::Exists(run_dir.to_owned()),
            _ => io_error("write", &path, source),
        })?;
        let n_bytes = file.metadata().map_err(|source| io_error("read", &path, source))?.len();
        Ok(Self { path, file, n_bytes, lines: Vec::new() })
    }

    pub(super) fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// Appends events in one write; where that fails, nothing of them stays.
    pub(super) fn append(&mut self, events: &[Event]) -> Result<(), RunDirError> {
        self.lines.clear();
        events.iter().for_each(|it| encode_into(&mut self.lines, it));
        self.file.write_all(&self.lines).map_err(|source| {
            // What cannot be cut off now is cut off when the run goes on.
            drop(self.file.set_len(self.n_bytes));
            io_error("write", &self.path, source)
        })?;
        self.n_bytes += self.lines.len() as u64;
        Ok(())
    }

    /// Returns the lines of what was appended last.
    pub(super) fn last_lines(&self) -> &[u8] {
        &self.lines
    }

    /// Reads everything; a last line that a kill cut short is left out.
    pub(super) fn events(&self) -> Result<Vec<Event>, RunDirError> {
        let bytes = std::fs::read(&self.path).map_err(|source| io_error("read", &self.path, source))?;
        let damaged = |source| RunDirError::Log { path: self.path.clone(), source };
        let Log { events, .. } = decode_bytes(&bytes).map_err(damaged)?;
        Ok(events)
    }

    /// Moves what follows the first `n_bytes` to the end of `undone.jsonl`, and returns its events.
    pub(super) fn undo_after(&mut self, n_bytes: u64) -> Result<Vec<Event>, RunDirError> {
        let undone = self.tail(n_bytes).map_err(|source| io_error("read", &self.path, source))?;
        if undone.is_empty() {
            return Ok(Vec::new());
        }
        let path = self.path.with_file_name(UNDONE_FILE);
        append_lines(&path, &undone).map_err(|source| io_error("write", &path, source))?;
        path.parent().map_or(Ok(()), sync_folder)?;
        let cut = self.file.set_len(n_bytes).and_then(|()| self.file.sync_all());
        cut.map_err(|source| io_error("write", &self.path, source))?;
        self.n_bytes = n_bytes;
        let lines = undone.split_inclusive(|it| *it == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
        // Of what did not happen, a line that makes no sense is worth nothing.
        Ok(lines.filter_map(|line| decode(line).ok()).flat_map(|log| log.events).collect())
    }

    fn tail(&self, n_bytes: u64) -> std::io::Result<Vec<u8>> {
        let (mut file, mut tail) = (File::open(&self.path)?, Vec::new());
        file.seek(SeekFrom::Start(n_bytes))?;
        file.read_to_end(&mut tail)?;
        Ok(tail)
    }
}

/// Appends lines, the last of them perhaps cut short.
fn append_lines(path: &Path, lines: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(lines)?;
    if !lines.ends_with(b"\n") {
        file.write_all(b"\n")?;
    }
    file.sync_all()
}
