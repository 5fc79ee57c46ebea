//! What can be wrong with a folder of samples.

use std::io;
use std::path::PathBuf;

use crate::files::missing;
use crate::outside::Outside;
use crate::survey::AboutFolder;
use crate::watch::Interrupted;

/// Why a folder makes no data set.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The folder is not there.
    #[error("read data from {}: {}", .0.display(), missing(.0))]
    NoFolder(PathBuf),
    /// The list of samples cannot be read.
    #[error("read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A line of the list makes no sample.
    #[error("read {}, line {line}: {reason}; repair or remove the line, or set `data.bad_sample = \"skip\"`", path.display())]
    Line {
        /// The list.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The list has no line that can be used.
    #[error("find samples in {}: it has no line that can be used", path.display())]
    NoLines {
        /// The list.
        path: PathBuf,
    },
    /// A task has nothing to train on or to validate on.
    #[error(
        "find samples of task `{task}` in {}: {train} of its {lines} lines have images to train on, and {held_out} have \
         images that are held out; at least one each is needed{outside}",
        path.display()
    )]
    NoSamples {
        /// The list.
        path: PathBuf,
        /// The task.
        task: String,
        /// Lines of the task that can be used.
        lines: usize,
        /// Lines to train on.
        train: usize,
        /// Lines to validate on.
        held_out: usize,
        /// What is said of those with more or fewer images than wanted.
        outside: String,
    },
    /// A task has one label alone.
    #[error("tell labels apart in {}: all samples of task `{task}` have {label:?}, at least 2 are needed", path.display())]
    OneLabel {
        /// The list.
        path: PathBuf,
        /// The task.
        task: String,
        /// Its label.
        label: String,
    },
    /// There is nothing to tell apart.
    #[error("tell subjects apart in {}: it names {found}, at least 2 are needed", path.display())]
    OneSubject {
        /// The list.
        path: PathBuf,
        /// Subjects that it names.
        found: usize,
    },
    /// Decoded pixels cannot be kept.
    #[error("keep decoded images in {}: {source}", folder.display())]
    Store {
        /// The folder.
        folder: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A sample has more or fewer images than wanted.
    #[error(transparent)]
    Outside(#[from] Outside),
    /// Whoever watches has asked for the end.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

impl AboutFolder for DataError {
    fn is_about_folder(&self) -> bool {
        use DataError::{Io, NoLines, NoSamples, OneLabel, OneSubject};
        matches!(self, Io { .. } | NoLines { .. } | NoSamples { .. } | OneLabel { .. } | OneSubject { .. })
    }
}
