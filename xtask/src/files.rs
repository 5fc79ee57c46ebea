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
