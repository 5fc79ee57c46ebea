//! Folders and files of the workspace, each named where it cannot be read.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Returns the paths of what a folder holds, sorted.
pub(crate) fn entries(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("failed to read {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Returns the text of a file.
pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))
}

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
