//! Files that appear whole.

use std::fs;
use std::path::Path;

use anyhow::Context;

/// Writes a file, and the folder above it; it has its name only when it is whole.
pub(crate) fn write_whole(path: &Path, content: &str) -> anyhow::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let write = || {
        fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
        fs::write(&unfinished, content)?;
        fs::rename(&unfinished, path)
    };
    write().with_context(|| format!("failed to write {}", path.display()))
}
