//! What can go wrong with a run directory.

use std::io;
use std::path::PathBuf;

use plimsoll_monitor::LogError;

/// What can go wrong with a run directory.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// Something is there already.
    #[error("write to {}: it exists already; pass `--resume` to go on from its last checkpoint, or `--overwrite` to start anew", .0.display())]
    Exists(PathBuf),
    /// Something else than a run is there already.
    #[error("write to {}: it holds something else than a run; choose a folder that is empty or not there", .0.display())]
    NotEmpty(PathBuf),
    /// A file stands in its place.
    #[error("write to {}: it is no folder", .0.display())]
    NoFolder(PathBuf),
    /// There is no run to go on with.
    #[error("resume {}: there is no run to resume, it has no `events.jsonl`", .0.display())]
    NoRun(PathBuf),
    /// The directory is not one of ours.
    #[error("overwrite {}: it is not empty and holds no run, so it is not deleted", .0.display())]
    NotOurs(PathBuf),
    /// Another process writes to it.
    #[error("write to {}: {} writes to it; wait until it has ended, or end it", path.display(), named(*.process))]
    Locked {
        /// The run directory.
        path: PathBuf,
        /// The other process, where it is known.
        process: Option<u32>,
    },
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

fn named(process: Option<u32>) -> String {
    process.map_or_else(|| "another process".to_owned(), |it| format!("process {it}"))
}
