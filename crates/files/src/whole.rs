//! A file that is written bit by bit.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::{sync_folder, unfinished};

/// A file that has its name only when it is finished, whole and on the disk; dropped before, it leaves what was there.
///
/// Nothing is buffered: whoever writes little at a time does that.
#[derive(Debug)]
pub struct WholeFile {
    pub(crate) file: File,
    path: PathBuf,
    /// Where it is until it is finished.
    unfinished: Option<PathBuf>,
}

impl WholeFile {
    /// Begins a file.
    ///
    /// # Errors
    ///
    /// As [`write_whole_with`](crate::write_whole_with).
    pub fn create(path: &Path) -> io::Result<Self> {
        let unfinished = unfinished(path)?;
        let file = File::create(&unfinished)?;
        Ok(Self { file, path: path.to_owned(), unfinished: Some(unfinished) })
    }

    /// Gives it its name.
    ///
    /// # Errors
    ///
    /// What the system says; what had the name has it still.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if let Some(unfinished) = &self.unfinished {
            fs::rename(unfinished, &self.path)?;
        }
        self.unfinished = None;
        self.path.parent().map_or(Ok(()), sync_folder)
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(unfinished) = self.unfinished.take() {
            // What is wrong is known already.
            drop(fs::remove_file(unfinished));
        }
    }
}
