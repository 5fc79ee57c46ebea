//! The log of a run, open at its end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use plimsoll_monitor::{decode, encode_into};
use plimsoll_types::Event;

use super::parts::{EVENTS_FILE, LONGEST, from, log_files, part};
use super::{RunDirError, io_error, sync_folder};

/// The events that did not happen after all, because a run went back to a checkpoint, inside its directory.
pub const UNDONE_FILE: &str = "undone.jsonl";

/// The lines of a run so far, each of them whole.
#[derive(Debug)]
pub(super) struct EventLog {
    run_dir: PathBuf,
    /// Its last file, and which one that is.
    file: File,
    number: usize,
    /// Bytes of the files before it, and its own.
    n_before: u64,
    n_own: u64,
    /// Bytes from which on another file follows.
    longest: u64,
    /// The lines of the last events, in room that is used again.
    lines: Vec<u8>,
}

impl EventLog {
    /// Opens the log of a run directory; a new one must not be there yet.
    pub(super) fn open(run_dir: &Path, is_new: bool) -> Result<Self, RunDirError> {
        let number = log_files(run_dir).len().saturating_sub(1);
        let path = part(run_dir, number);
        let file = append_to(&path, is_new).map_err(|source| match source.kind() {
            ErrorKind::AlreadyExists => RunDirError::Exists(run_dir.to_owned()),
            _ => io_error("write", &path, source),
        })?;
        let length = |path: &Path| fs::metadata(path).map(|it| it.len()).map_err(|it| io_error("read", path, it));
        let n_before = (0..number).map(|n| length(&part(run_dir, n))).sum::<Result<_, _>>()?;
        let n_own = length(&path)?;
        let run_dir = run_dir.to_owned();
        Ok(Self { run_dir, file, number, n_before, n_own, longest: LONGEST, lines: Vec::new() })
    }

    pub(super) fn n_bytes(&self) -> u64 {
        self.n_before + self.n_own
    }

    /// Appends events in one write; where that fails, nothing of them stays.
    pub(super) fn append(&mut self, events: &[Event]) -> Result<(), RunDirError> {
        if self.longest <= self.n_own {
            self.begin_another().map_err(|source| io_error("write", &part(&self.run_dir, self.number + 1), source))?;
        }
        self.lines.clear();
        for event in events {
            encode_into(&mut self.lines, event);
        }
        self.file.write_all(&self.lines).map_err(|source| {
            // What cannot be cut off now is cut off when the run goes on.
            drop(self.file.set_len(self.n_own));
            io_error("write", &part(&self.run_dir, self.number), source)
        })?;
        self.n_own += self.lines.len() as u64;
        Ok(())
    }

    /// Goes on in another file, once the one before is on the disk: whoever flushes the last one has all of them there.
    fn begin_another(&mut self) -> io::Result<()> {
        self.file.sync_all()?;
        self.file = append_to(&part(&self.run_dir, self.number + 1), true)?;
        plimsoll_files::sync_folder(&self.run_dir)?;
        (self.number, self.n_before, self.n_own) = (self.number + 1, self.n_before + self.n_own, 0);
        Ok(())
    }

    /// Returns the lines of what was appended last.
    pub(super) fn last_lines(&self) -> &[u8] {
        &self.lines
    }

    /// Moves what follows the first `n_bytes` to the end of `undone.jsonl`, and returns its events.
    pub(super) fn undo_after(&mut self, n_bytes: u64) -> Result<Vec<Event>, RunDirError> {
        let log = self.run_dir.join(EVENTS_FILE);
        let (number, n_before) = self.part_of(n_bytes).map_err(|source| io_error("read", &log, source))?;
        let undone = self.tail(number, n_bytes - n_before).map_err(|source| io_error("read", &log, source))?;
        if undone.is_empty() {
            return Ok(Vec::new());
        }
        let path = self.run_dir.join(UNDONE_FILE);
        append_lines(&path, &undone).map_err(|source| io_error("write", &path, source))?;
        sync_folder(&self.run_dir)?;
        self.cut(number, n_bytes - n_before).map_err(|source| io_error("write", &log, source))?;
        self.n_before = n_before;
        let lines = undone.split_inclusive(|it| *it == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
        // Of what did not happen, a line that makes no sense is worth nothing.
        Ok(lines.filter_map(|line| decode(line).ok()).flat_map(|log| log.events).collect())
    }

    /// Returns the file in which the first `n_bytes` end, and the bytes of those before it.
    fn part_of(&self, n_bytes: u64) -> io::Result<(usize, u64)> {
        let mut n_before = 0;
        for number in 0..self.number {
            let length = fs::metadata(part(&self.run_dir, number))?.len();
            if n_bytes <= n_before + length {
                return Ok((number, n_before));
            }
            n_before += length;
        }
        Ok((self.number, n_before))
    }

    /// Reads what follows the first bytes of a file, in it and in those after it.
    fn tail(&self, number: usize, n_bytes: u64) -> io::Result<Vec<u8>> {
        let mut tail = from(&part(&self.run_dir, number), n_bytes)?;
        for later in number + 1..=self.number {
            tail.extend(from(&part(&self.run_dir, later), 0)?);
        }
        Ok(tail)
    }

    /// Ends the log in a file after so many bytes of it; the last file goes first, so that none is ever missing in between.
    fn cut(&mut self, number: usize, n_bytes: u64) -> io::Result<()> {
        for later in (number + 1..=self.number).rev() {
            fs::remove_file(part(&self.run_dir, later))?;
        }
        if number < self.number {
            (self.file, self.number) = (append_to(&part(&self.run_dir, number), false)?, number);
        }
        self.file.set_len(n_bytes)?;
        self.n_own = n_bytes;
        self.file.sync_all()
    }
}

fn append_to(path: &Path, is_new: bool) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).create_new(is_new).open(path)
}

/// Appends lines, the last of them perhaps cut short.
fn append_lines(path: &Path, lines: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(lines)?;
    if !lines.ends_with(b"\n") {
        file.write_all(b"\n")?;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use plimsoll_types::EpochDone;

    use super::super::parts::{log_bytes, log_tail, read_log};
    use super::*;

    fn epoch(epoch: u64) -> Event {
        Event::EpochDone(EpochDone { epoch, step: 3, samples: 9, dropped: 0 })
    }

    /// A log of this many events, two to a file.
    fn long(run_dir: &Path, n: u64) -> EventLog {
        let mut log = EventLog::open(run_dir, true).unwrap();
        log.longest = 100;
        (0..n).for_each(|it| log.append(&[epoch(it)]).unwrap());
        log
    }

    fn epochs(run_dir: &Path) -> Vec<u64> {
        let number = |it: &Event| if let Event::EpochDone(it) = it { it.epoch } else { u64::MAX };
        read_log(run_dir).unwrap().events.iter().map(number).collect()
    }

    #[test]
    fn a_long_log_goes_on_in_other_files_and_is_read_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let log = long(folder.path(), 5);
        let names: Vec<_> = log_files(folder.path()).iter().map(|it| it.file_name().unwrap().to_owned()).collect();
        assert_eq!(names, ["events.jsonl", "events.1.jsonl", "events.2.jsonl"]);
        assert_eq!(epochs(folder.path()), [0, 1, 2, 3, 4]);
        assert_eq!(log.n_bytes(), log_bytes(folder.path()));
        drop(log);
        let mut log = EventLog::open(folder.path(), false).unwrap();
        assert_eq!((log.number, log.n_bytes()), (2, log_bytes(folder.path())));
        log.append(&[epoch(5), epoch(6)]).unwrap();
        assert_eq!(epochs(folder.path()), [0, 1, 2, 3, 4, 5, 6]);
        let tail = log_tail(folder.path(), log.n_own + 10).unwrap();
        assert_eq!(tail.len() as u64, log.n_own + 10);
        assert!(tail.ends_with(&fs::read(part(folder.path(), 2)).unwrap()));
        assert_eq!(log_tail(folder.path(), 1 << 20).unwrap().len() as u64, log.n_bytes());
    }

    #[test]
    fn what_is_undone_may_lie_in_several_files() {
        for n_kept in 0..=5 {
            let folder = tempfile::tempdir().unwrap();
            let mut log = long(folder.path(), n_kept);
            let mark = log.n_bytes();
            (n_kept..6).for_each(|it| log.append(&[epoch(it)]).unwrap());
            let undone = log.undo_after(mark).unwrap();
            assert_eq!(undone, (n_kept..6).map(epoch).collect::<Vec<_>>(), "{n_kept}");
            assert_eq!(epochs(folder.path()), (0..n_kept).collect::<Vec<_>>());
            assert_eq!((log.n_bytes(), log_bytes(folder.path())), (mark, mark));
            log.append(&[epoch(77)]).unwrap();
            assert_eq!(epochs(folder.path()), (0..n_kept).chain([77]).collect::<Vec<_>>());
            let lines = fs::read_to_string(folder.path().join(UNDONE_FILE)).unwrap().lines().count();
            assert_eq!(lines as u64, 6 - n_kept);
        }
    }

    #[test]
    fn a_line_that_is_cut_short_is_the_last_one_of_all_or_damage() {
        let folder = tempfile::tempdir().unwrap();
        drop(long(folder.path(), 5));
        let cut = |n: usize| {
            let path = part(folder.path(), n);
            let length = fs::metadata(&path).unwrap().len();
            File::options().write(true).open(path).unwrap().set_len(length - 7).unwrap();
        };
        cut(2);
        let log = read_log(folder.path()).unwrap();
        assert_eq!((log.events.len(), log.truncated), (4, true));
        cut(0);
        let error = read_log(folder.path()).unwrap_err().to_string();
        assert!(error.contains("events.1.jsonl") && error.contains("is cut short"), "{error}");
    }
}
