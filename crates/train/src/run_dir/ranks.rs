//! What in a run directory is a single rank's own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use plimsoll_probe::OomKills;

use super::files::io_error;
use super::log::EventLog;
use super::{EVENTS_FILE, Existing, RunDir, RunDirError, last_process};

/// What a process notes for whoever looks after it, inside its rank's directory: an allocation that was refused.
pub const REFUSAL_FILE: &str = "refusal";

/// The folder of what belongs to single ranks, inside a run directory: that of each but the first has its number.
const RANKS: &str = "ranks";

impl RunDir {
    /// Opens the folder of another rank than the first, inside the directory that the first has opened before: for its log and
    /// what else is its own.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn of_rank(root: &Path, rank: u32, existing: Existing) -> Result<Self, RunDirError> {
        let path = Self::path_of_rank(root, rank);
        let holds_run = path.join(EVENTS_FILE).is_file();
        let existing = if existing == Existing::Resume && holds_run { existing } else { Existing::Refuse };
        if existing == Existing::Refuse && path.exists() {
            // Whoever died before it had a log left nothing that is worth anything.
            fs::remove_dir_all(&path).map_err(|source| io_error("delete", &path, source))?;
        }
        let mut own = Self::open(&path, existing)?;
        root.clone_into(&mut own.root);
        // What the first undoes contains it.
        own.undo = None;
        Ok(own)
    }

    /// Returns the directory of a rank inside that of the run.
    pub fn path_of_rank(root: &Path, rank: u32) -> PathBuf {
        if rank == 0 { root.to_owned() } else { root.join(RANKS).join(rank.to_string()) }
    }

    /// Says on which machine each rank works, and how often the kernel has killed on this one's for want of memory, for the note
    /// of this process.
    pub fn set_machines(&mut self, machines: Vec<String>, oom_kills: OomKills) {
        (self.machines, self.oom_kills) = (machines, Some(oom_kills));
    }

    /// Makes the file in which this process notes an allocation that is refused; it stays where the process is killed.
    ///
    /// # Errors
    ///
    /// [`RunDirError::Io`].
    pub fn refusal_file(&mut self) -> Result<File, RunDirError> {
        let path = self.path.join(REFUSAL_FILE);
        let file = File::create(&path).map_err(|source| io_error("write", &path, source))?;
        self.note = Some(path);
        Ok(file)
    }

    /// Returns the machine of this rank, where the kernel has killed there for want of memory since the process before this one
    /// began there.
    pub(crate) fn lacked_memory(&self, rank: u32) -> Option<&str> {
        let (before, at) = (last_process(&self.path)?, rank as usize);
        let machine = self.machines.get(at).filter(|it| before.machines.get(at) == Some(it))?;
        let (then, now) = (before.oom_kills?, self.oom_kills?);
        let rose = |then: Option<u64>, now: Option<u64>| then.zip(now).is_some_and(|(then, now)| then < now);
        (rose(then.group, now.group) || rose(then.machine, now.machine)).then_some(machine)
    }
}

/// Undoes in the folder of a rank that takes no part any more what it logged after a mark.
pub(crate) fn undo_in(folder: &Path, mark: u64) -> Result<(), RunDirError> {
    EventLog::open(folder, false)?.undo_after(mark).map(drop)
}

/// Returns the folders of the ranks of a run but the first, with their numbers, in order.
pub fn folders_of_ranks(root: &Path) -> Vec<(u32, PathBuf)> {
    let entries = fs::read_dir(root.join(RANKS)).into_iter().flatten().flatten();
    let rank_of = |it: &fs::DirEntry| it.file_name().to_str()?.parse().ok();
    let mut folders: Vec<_> = entries.filter_map(|it| Some((rank_of(&it)?, it.path()))).collect();
    folders.sort();
    folders
}
