//! Damage to a checkpoint.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Failed;

/// Cuts off, flips a bit of, or deletes a file of the newest checkpoint, where there is one before it.
pub(crate) fn damage_newest(run: &Path, dice: u64) -> Result<(), Failed> {
    let mut checkpoints = entries(&run.join("checkpoints"));
    checkpoints.retain(|it| it.file_name().is_some_and(|name| name.to_string_lossy().starts_with("step-")));
    let (Some(newest), 2..) = (checkpoints.pop(), checkpoints.len() + 1) else { return Ok(()) };
    let files = entries(&newest);
    if files.is_empty() {
        return Ok(());
    }
    let file = &files[usize::try_from(dice % files.len() as u64)?];
    let mut bytes = fs::read(file)?;
    let place = usize::try_from((dice >> 16) % (bytes.len() as u64).max(1))?;
    match (dice >> 8) % 3 {
        0 => fs::remove_file(file)?,
        1 => fs::write(file, &bytes[..place])?,
        _ => {
            if let Some(byte) = bytes.get_mut(place) {
                *byte ^= 1 << ((dice >> 12) % 8);
            }
            fs::write(file, &bytes)?;
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|it| it.path()).collect();
    paths.sort();
    paths
}
