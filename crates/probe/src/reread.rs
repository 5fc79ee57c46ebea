//! Short files of the kernel, read once or again and again.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

use crate::ProbeError;

/// Enough for a whole `memory.stat` (2 KB with 70 counters) and a `/proc/self/status` (1.5 KB); of `/proc/meminfo` the two
/// figures that count stand at its head.
const LONGEST: usize = 4096;

/// `ENODEV`, what a file of a removed control group answers.
const NO_DEVICE: i32 = 19;

/// A file that stays open: to read it again takes a few µs, to find and open it again ten times as long.
#[derive(Debug)]
pub(crate) struct Reread {
    path: PathBuf,
    file: File,
}

impl Reread {
    /// Opens a file; `None` where there is none.
    ///
    /// # Errors
    ///
    /// [`ProbeError::Io`] when it is there and cannot be opened.
    pub(crate) fn open_if_there(path: PathBuf) -> Result<Option<Self>, ProbeError> {
        match File::open(&path) {
            Ok(file) => Ok(Some(Self { path, file })),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(source) => Err(ProbeError::Io { path, source }),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file from its beginning, as it is now; `None` after the control group that it belongs to was removed.
    ///
    /// # Errors
    ///
    /// [`ProbeError::Io`] when it cannot be read.
    pub(crate) fn read(&self) -> Result<Option<String>, ProbeError> {
        let (mut text, mut file) = ([0; LONGEST], &self.file);
        match file.rewind().and_then(|()| file.read(&mut text)) {
            Ok(n) => Ok(Some(String::from_utf8_lossy(&text[..n]).into_owned())),
            Err(error) if error.raw_os_error() == Some(NO_DEVICE) => Ok(None),
            Err(source) => Err(ProbeError::Io { path: self.path.clone(), source }),
        }
    }
}

/// Reads a file, or returns `None` where there is none.
pub(crate) fn read_if_there(path: &Path) -> Result<Option<String>, ProbeError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(source) => Err(ProbeError::Io { path: path.to_owned(), source }),
    }
}
