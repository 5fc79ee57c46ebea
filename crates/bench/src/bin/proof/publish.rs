//! Files that appear whole.

use std::fs;
use std::path::Path;

use crate::Failed;

/// Writes to a temporary name beside `path`, and renames it: whoever reads the file never sees half of it.
pub(crate) fn publish(path: &Path, text: &str) -> Result<(), Failed> {
    let failed = |error| format!("write {}: {error}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut aside = path.as_os_str().to_owned();
    aside.push(".new");
    fs::write(&aside, text).and_then(|()| fs::rename(&aside, path)).map_err(failed)?;
    Ok(())
}
