//! `memory_plan.json`.

use std::fs;
use std::path::Path;

use plimsoll_files::write_whole;

use crate::{Fingerprint, MemoryPlan, PLAN_VERSION, PlanError};

/// Name of a plan in a run directory.
pub const PLAN_FILE: &str = "memory_plan.json";

impl MemoryPlan {
    /// Writes the plan, which is there whole or not at all.
    ///
    /// # Errors
    ///
    /// [`PlanError::File`] when it cannot be written; what was there stays.
    pub fn write(&self, path: &Path) -> Result<(), PlanError> {
        let failed = |source| PlanError::File { action: "write", path: path.to_owned(), source };
        let mut text = serde_json::to_string_pretty(self).map_err(|error| failed(error.into()))?;
        text.push('\n');
        write_whole(path, text.as_bytes()).map_err(failed)
    }

    /// Reads a plan that was made for this program.
    ///
    /// # Errors
    ///
    /// [`PlanError::File`], [`PlanError::Malformed`], or [`PlanError::OtherProgram`] with what differs.
    pub fn read(path: &Path, now: &Fingerprint) -> Result<Self, PlanError> {
        let failed = |source| PlanError::File { action: "read", path: path.to_owned(), source };
        let plan = parse(&fs::read_to_string(path).map_err(failed)?)
            .map_err(|reason| PlanError::Malformed { path: path.to_owned(), reason })?;
        match plan.fingerprint.difference(now) {
            Some((key, planned, now)) => Err(PlanError::OtherProgram { path: path.to_owned(), key, planned, now }),
            None => Ok(plan),
        }
    }
}

/// Reads the version before anything else: another version may have other keys.
fn parse(text: &str) -> Result<MemoryPlan, String> {
    #[derive(serde::Deserialize)]
    struct Version {
        version: u32,
    }
    let Version { version } = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if version != PLAN_VERSION {
        return Err(format!("its version is {version}, and this program reads version {PLAN_VERSION}"));
    }
    serde_json::from_str(text).map_err(|error| error.to_string())
}
