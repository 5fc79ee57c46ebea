//! Finding the files of a folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Why a folder's files cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder is not there.
    #[error("read data from {}: there is no such folder", .0.display())]
    Missing(PathBuf),
    /// The folder, or one below it, cannot be read.
    #[error("read {}: {source}", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// Returns all files below a folder, in the order of their paths.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, FolderError> {
    if !folder.is_dir() {
        return Err(FolderError::Missing(folder.to_owned()));
    }
    let (mut found, mut waiting) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = waiting.pop() {
        let fail = |source| FolderError::Io { path: next.clone(), source };
        for entry in fs::read_dir(&next).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            match (entry.file_type().map_err(fail)?.is_dir(), entry.path()) {
                (true, path) => waiting.push(path),
                // A link to a folder may lead round in a circle, so it is not followed.
                (false, path) if path.is_dir() => (),
                (false, path) => found.push(path),
            }
        }
    }
    found.sort();
    Ok(found)
}
