//! What can be wrong with a folder of sequences.

use std::io;
use std::path::PathBuf;

use super::endings::endings;
use crate::files::{NoFile, missing};
use crate::outside::Outside;
use crate::survey::AboutFolder;
use crate::watch::Interrupted;

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// There is no such file.
    #[error("there is no such file")]
    Missing,
    /// It is a folder, a pipe or a device.
    #[error(transparent)]
    NoFile(NoFile),
    /// The system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Its name says neither sound nor trace.
    #[error("its name ends neither in {} (sound) nor in .txt (a trace)", endings())]
    Extension,
    /// It is of the other kind.
    #[error("it is {found}, {expected} is expected, as in most files of the folder")]
    Mixed {
        /// What it is.
        found: &'static str,
        /// What most files are.
        expected: &'static str,
    },
    /// It is none of the sounds that can be read.
    #[error("it is no sound that can be read: {0}")]
    NoSound(String),
    /// Its sample rate leaves no room for the bands, or is none.
    #[error("its sample rate is {found} Hz, it must be from {least} to {most} Hz")]
    Rate {
        /// Its rate.
        found: u32,
        /// The lowest rate that can be used.
        least: u32,
        /// The highest.
        most: u32,
    },
    /// It holds nothing.
    #[error("it has no {0}")]
    Empty(&'static str),
    /// It ends before it should.
    #[error("it is cut short: it should have {expected} bytes of samples, and has {found}")]
    Truncated {
        /// Bytes that its header promises.
        expected: u64,
        /// Bytes that there are.
        found: u64,
    },
    /// It ends before it should, which showed when it was decoded.
    #[error("it is cut short: it should have at least {expected} samples, and has {found}")]
    Short {
        /// Samples that it should have.
        expected: u64,
        /// Samples that there are.
        found: u64,
    },
    /// A line of a trace is broken.
    #[error("line {line} is {found:?}, which is neither START, BREAK nor `x,y,t` with finite numbers")]
    TraceLine {
        /// The line, from 1.
        line: usize,
        /// What is there.
        found: String,
    },
    /// Its length is not what it was.
    #[error("it has {found} frames now, and had {expected} when it was indexed: it has changed")]
    Changed {
        /// Frames now.
        found: u32,
        /// Frames in the index.
        expected: u32,
    },
    /// It is longer than what steps were sized for.
    #[error("it has {found} frames now, and there is room for {most}: it has grown since it was indexed")]
    Grown {
        /// Frames now.
        found: u32,
        /// The most that fit.
        most: u32,
    },
}

impl AboutFolder for DataError {
    fn is_about_folder(&self) -> bool {
        use DataError::{Column, Groups, Header, Labels, ManySources, OneGroup, TooFew, Weights};
        matches!(
            self,
            Labels { .. }
                | Header { .. }
                | Column { .. }
                | ManySources { .. }
                | TooFew { .. }
                | Groups { .. }
                | OneGroup { .. }
                | Weights { .. }
        )
    }
}

/// Why a folder makes no data set.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The folder is not there.
    #[error("read data from {}: {}", .0.display(), missing(.0))]
    NoFolder(PathBuf),
    /// The list of samples cannot be read.
    #[error(
        "read {}: {source}; the folder needs a UTF-8 file of this name whose first line names the columns, among them \
         `path` and `label`",
        path.display()
    )]
    Labels {
        /// The list.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The list of samples lacks a column.
    #[error("read {}, line 1: it must name a column `{column}`, and reads {found:?}", path.display())]
    Header {
        /// The list.
        path: PathBuf,
        /// The column.
        column: String,
        /// The first line.
        found: String,
    },
    /// The list of samples has no column of a name that the configuration gives.
    #[error(
        "read {}, line 1: `{key}` is \"{column}\", and the columns are {found:?}; name one of them, or set `{key} = \"\"`",
        path.display()
    )]
    Column {
        /// The list.
        path: PathBuf,
        /// The key of the configuration.
        key: &'static str,
        /// The column.
        column: String,
        /// The first line.
        found: String,
    },
    /// A line of the list is broken.
    #[error(
        "read {}, line {line}: {reason}; repair or remove the line, or set `data.bad_sample = \"skip\"`",
        path.display()
    )]
    Line {
        /// The list.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A file cannot be used.
    #[error(
        "use {}: {fault}; repair it, remove it from labels.csv, or set `data.bad_sample = \"skip\"`",
        path.display()
    )]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: Fault,
    },
    /// Too few samples are left.
    #[error(
        "find samples in {}: {usable} of the {lines} lines of labels.csv can be used, with {labels} different labels; \
         at least two labels are needed, one of them with two samples (one to train on, one to validate on){outside}",
        folder.display()
    )]
    TooFew {
        /// The folder.
        folder: PathBuf,
        /// Samples that can be used.
        usable: usize,
        /// Lines of the list, less the first.
        lines: usize,
        /// Different labels among the samples that can be used.
        labels: usize,
        /// What is said of those whose lengths are not wanted.
        outside: String,
    },
    /// There are too few groups for all parts.
    #[error(
        "divide the recordings of {} by `{column}`: with {found} of it, none is left to {lacks}; {needed} are needed at \
         least, and `data.validation_share` and `data.test_share` must leave one for each part (a `data.test_share` of 0 \
         asks for none to test on)",
        folder.display()
    )]
    Groups {
        /// The folder.
        folder: PathBuf,
        /// The column of the groups.
        column: String,
        /// Different groups.
        found: usize,
        /// What a part without any is for.
        lacks: &'static str,
        /// Parts.
        needed: usize,
    },
    /// A label has nothing to train on, since all of it is of groups that are held out.
    #[error(
        "train on label {label:?} of {}: all of its recordings are of a `{column}` that is held out ({}); add some of \
         others, or set `data.group_column = \"\"`",
        folder.display(), groups.join(", ")
    )]
    OneGroup {
        /// The folder.
        folder: PathBuf,
        /// The column of the groups.
        column: String,
        /// The label.
        label: String,
        /// The groups that have it.
        groups: Vec<String>,
    },
    /// The column of the sources has too many names.
    #[error(
        "find the sources of {}: the column `{column}` of labels.csv has {found} different names, and there may be {most}; \
         name another in `data.source_column`, or set it to \"\"",
        folder.display()
    )]
    ManySources {
        /// The folder.
        folder: PathBuf,
        /// The column of the sources.
        column: String,
        /// Different names.
        found: usize,
        /// The most that there may be.
        most: usize,
    },
    /// None of what is trained on is ever drawn.
    #[error(
        "draw recordings of {} by `{column}`: the weights of the {recordings} to train on sum to {sum}, the sum must be a \
         number above 0; set `data.weight_column = \"\"` to have each once an epoch",
        folder.display()
    )]
    Weights {
        /// The folder.
        folder: PathBuf,
        /// The column of the weights.
        column: String,
        /// Recordings to train on.
        recordings: usize,
        /// The sum of their weights.
        sum: f64,
    },
    /// A recording has a length that is not wanted.
    #[error(transparent)]
    Outside(#[from] Outside),
    /// Whoever watches has asked for the end.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}
