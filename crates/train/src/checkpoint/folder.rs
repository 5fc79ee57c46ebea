//! The checkpoints of a run, side by side.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_types::ItemsMeasured;
use serde::{Deserialize, Serialize};

use super::CheckpointError;
use crate::run_dir::{RunDirError, io_error, sync_folder, write_atomically};

/// The folder of checkpoints inside a run directory.
pub(super) const FOLDER: &str = "checkpoints";
/// Names the checkpoint that was best in a validation.
const BEST: &str = "best.json";
/// A checkpoint that is being written.
const UNFINISHED: &str = "unfinished";
/// A checkpoint.
const WHOLE: &str = "step-";
/// A checkpoint that is being replaced by one of the same step.
const REPLACED: &str = "replaced-";

/// The validation that was best so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Steps done before it.
    pub step: u64,
    /// Name of the metric, with its unit.
    pub metric_name: String,
    /// The metric.
    #[serde(deserialize_with = "plimsoll_types::null_as_nan")]
    pub metric: f64,
    /// What part of the validation set it was of; all of it where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<ItemsMeasured>,
    /// Whether it was measured only because a signal ended the run: one that goes on forgets it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_interruption: bool,
}

/// Returns the path of a checkpoint inside a run directory.
pub(crate) fn name(step: u64) -> String {
    format!("{FOLDER}/{WHOLE}{step:08}")
}

/// Returns the checkpoints, oldest first.
pub(super) fn list(run_dir: &Path) -> Vec<(u64, PathBuf)> {
    let entries = fs::read_dir(run_dir.join(FOLDER)).into_iter().flatten().flatten();
    let step_of = |path: &Path| {
        let name = path.file_name()?.to_str()?;
        name.strip_prefix(WHOLE).or_else(|| name.strip_prefix(REPLACED))?.parse().ok()
    };
    let mut found: Vec<_> = entries.filter_map(|it| Some((step_of(&it.path())?, it.path()))).collect();
    // Of one step, the replaced one comes first by its name.
    found.sort();
    found
}

/// Makes an empty folder for the next checkpoint.
pub(super) fn unfinished(run_dir: &Path) -> Result<PathBuf, RunDirError> {
    let (folder, unfinished) = (run_dir.join(FOLDER), run_dir.join(FOLDER).join(UNFINISHED));
    let is_new = !folder.is_dir();
    remove(&unfinished)?;
    fs::create_dir_all(&unfinished).map_err(|source| io_error("create", &unfinished, source))?;
    if is_new { sync_folder(run_dir).map(|()| unfinished) } else { Ok(unfinished) }
}

/// Gives a finished checkpoint its name; one of the same step stays until then.
pub(super) fn publish(run_dir: &Path, unfinished: &Path, step: u64) -> Result<(), RunDirError> {
    let (path, folder) = (run_dir.join(name(step)), run_dir.join(FOLDER));
    sync_folder(unfinished)?;
    if path.exists() {
        let replaced = folder.join(format!("{REPLACED}{step:08}"));
        // One that a kill has left is older than what is there now.
        remove(&replaced)?;
        fs::rename(&path, &replaced).map_err(|source| io_error("move aside", &path, source))?;
    }
    fs::rename(unfinished, &path).map_err(|source| io_error("write", &path, source))?;
    sync_folder(&folder)
}

/// Removes all but the last `keep` checkpoints and the best.
pub(crate) fn prune(run_dir: &Path, keep: usize, best: Option<&Best>) -> Result<(), CheckpointError> {
    let (whole, replaced): (Vec<_>, Vec<_>) =
        list(run_dir).into_iter().partition(|(step, path)| path.ends_with(name(*step)));
    let old = whole.into_iter().rev().skip(keep.max(1)).filter(|(step, _)| best.is_none_or(|it| it.step != *step));
    for (_, path) in replaced.into_iter().chain(old) {
        remove(&path)?;
    }
    Ok(())
}

/// Returns what `best.json` names; nothing where it cannot be read, since a kill may have come before it.
pub(crate) fn noted_best(run_dir: &Path) -> Option<Best> {
    let text = fs::read(run_dir.join(FOLDER).join(BEST)).ok()?;
    serde_json::from_slice(&text).ok().filter(|best: &Best| run_dir.join(name(best.step)).is_dir())
}

/// Names the best checkpoint in `best.json`, or nothing where there is none any more.
pub(crate) fn note_best(run_dir: &Path, best: Option<&Best>) -> Result<(), CheckpointError> {
    let path = run_dir.join(FOLDER).join(BEST);
    match best.filter(|it| run_dir.join(name(it.step)).is_dir()) {
        Some(best) => {
            let text = serde_json::to_string(best).unwrap_or_else(|_| unreachable!("numbers and text are always JSON"));
            Ok(write_atomically(&path, text.as_bytes())?)
        }
        None if path.exists() => Ok(fs::remove_file(&path).map_err(|source| io_error("delete", &path, source))?),
        None => Ok(()),
    }
}

/// Removes what did not happen: checkpoints later than `step`, and one that is not finished.
pub(crate) fn remove_after(run_dir: &Path, step: Option<u64>) -> Result<(), CheckpointError> {
    for (_, path) in list(run_dir).into_iter().filter(|it| step.is_none_or(|step| step < it.0)) {
        remove(&path)?;
    }
    Ok(remove(&run_dir.join(FOLDER).join(UNFINISHED))?)
}

pub(super) fn remove(folder: &Path) -> Result<(), RunDirError> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|source| io_error("delete", folder, source))?;
    }
    Ok(())
}
