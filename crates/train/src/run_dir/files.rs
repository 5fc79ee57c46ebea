//! How files get into a run directory: whole, and on the disk.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use super::RunDirError;

/// Writes a file under a temporary name, flushes it to the disk and renames it.
pub(crate) fn write_atomically(path: &Path, content: &[u8]) -> Result<(), RunDirError> {
    let temporary = path.with_extension("tmp");
    let write = || {
        let mut file = File::create(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|source| {
        // The temporary file is of no use to anybody; that it may be missing is fine.
        drop(fs::remove_file(&temporary));
        io_error("write", path, source)
    })?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Flushes the names in a folder to the disk: a file that is renamed into it is there for good only then.
#[cfg(unix)]
pub(crate) fn sync_folder(folder: &Path) -> Result<(), RunDirError> {
    let synced = File::open(folder).and_then(|it| it.sync_all());
    synced.map_err(|source| io_error("flush", folder, source))
}

/// Other systems do not open folders, and flush names by themselves.
#[cfg(not(unix))]
pub(crate) fn sync_folder(_folder: &Path) -> Result<(), RunDirError> {
    Ok(())
}

pub(crate) fn io_error(action: &'static str, path: &Path, source: io::Error) -> RunDirError {
    RunDirError::Io { action, path: path.to_owned(), source }
}
