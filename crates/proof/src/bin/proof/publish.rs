//! Files that appear whole.

use std::fs;
use std::path::Path;

use plimsoll_files::write_whole;

use crate::Failed;

/// Writes a file, and the folders above it.
pub(crate) fn publish(path: &Path, text: &str) -> Result<(), Failed> {
    let failed = |error| format!("write {}: {error}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    Ok(write_whole(path, text.as_bytes()).map_err(failed)?)
}
