//! How files get into a run directory: whole, and on the disk.

use std::io;
use std::path::Path;

use plimsoll_files::write_whole;

use super::RunDirError;

/// Writes a file that is there whole or not at all.
pub(crate) fn write_atomically(path: &Path, content: &[u8]) -> Result<(), RunDirError> {
    write_whole(path, content).map_err(|source| io_error("write", path, source))
}

/// Flushes the names in a folder to the disk.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), RunDirError> {
    plimsoll_files::sync_folder(folder).map_err(|source| io_error("flush", folder, source))
}

pub(crate) fn io_error(action: &'static str, path: &Path, source: io::Error) -> RunDirError {
    RunDirError::Io { action, path: path.to_owned(), source }
}
