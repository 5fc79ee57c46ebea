//! What a rank has saved beside a checkpoint that another has written.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_types::Budget;
use serde::{Deserialize, Serialize};

use super::{CheckpointError, list};
use crate::controller::Controller;
use crate::run_dir::{io_error, write_atomically};

/// Names files of states.
const WHOLE: &str = "state-";

/// The state of a rank between two steps: what is not the same on all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RankState {
    /// Steps done.
    pub(crate) step: u64,
    /// Bytes in the rank's own log when the state was taken.
    pub(crate) log_bytes: u64,
    /// The memory that its policy knows of.
    pub(crate) budget: Budget,
    /// Its predictor and policy.
    pub(crate) controller: Controller,
}

fn path(own_dir: &Path, step: u64) -> PathBuf {
    own_dir.join(format!("{WHOLE}{step:08}.json"))
}

impl RankState {
    /// Writes it into the rank's own folder.
    pub(crate) fn write(&self, own_dir: &Path) -> Result<(), CheckpointError> {
        let text = serde_json::to_vec(self).unwrap_or_else(|_| unreachable!("numbers and text are always JSON"));
        Ok(write_atomically(&path(own_dir, self.step), &text)?)
    }

    /// Reads the one of a step; none where the rank took no part then.
    pub(crate) fn read(own_dir: &Path, step: u64) -> Result<Option<Self>, CheckpointError> {
        let path = path(own_dir, step);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|source| io_error("read", &path, source))?,
        };
        let damaged = |error: serde_json::Error| CheckpointError::Record {
            action: "read",
            reason: error.to_string(),
            path: path.clone(),
        };
        serde_json::from_slice(&text).map(Some).map_err(damaged)
    }

    /// Removes those whose checkpoint is gone; that of this step is still to come.
    pub(crate) fn prune(own_dir: &Path, root: &Path, step: u64) -> Result<(), CheckpointError> {
        let kept: Vec<_> = list(root).into_iter().map(|it| it.0).chain([step]).collect();
        Self::remove(own_dir, |it| !kept.contains(&it))
    }

    /// Removes those of steps after this one, which the run goes back to; all of them where that is its beginning.
    pub(crate) fn remove_after(own_dir: &Path, step: Option<u64>) -> Result<(), CheckpointError> {
        Self::remove(own_dir, |it| step.is_none_or(|step| step < it))
    }

    fn remove(own_dir: &Path, is_removed: impl Fn(u64) -> bool) -> Result<(), CheckpointError> {
        for step in Self::steps(own_dir).into_iter().filter(|it| is_removed(*it)) {
            let path = path(own_dir, step);
            fs::remove_file(&path).map_err(|source| io_error("delete", &path, source))?;
        }
        Ok(())
    }

    /// Returns the length of the log that the newest state has which is no newer than a step; 0 where there is none.
    pub(crate) fn mark(own_dir: &Path, step: u64) -> Result<u64, CheckpointError> {
        let newest = Self::steps(own_dir).into_iter().rev().find(|it| *it <= step);
        let state = newest.map_or(Ok(None), |it| Self::read(own_dir, it))?;
        Ok(state.map_or(0, |it| it.log_bytes))
    }

    /// Returns the steps of all states, in order.
    fn steps(own_dir: &Path) -> Vec<u64> {
        let entries = fs::read_dir(own_dir).into_iter().flatten().flatten();
        let step_of = |name: &str| name.strip_prefix(WHOLE)?.strip_suffix(".json")?.parse().ok();
        let mut steps: Vec<_> = entries.filter_map(|it| step_of(it.file_name().to_str()?)).collect();
        steps.sort_unstable();
        steps
    }
}
