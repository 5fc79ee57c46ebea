//! `memory_plan.json`.

use std::fs;
use std::path::Path;

use plimsoll_files::write_whole;

use crate::{Fingerprint, FleetPlan, MemoryPlan, PLAN_VERSION, PlanError};

/// Name of a plan in a run directory.
pub const PLAN_FILE: &str = "memory_plan.json";

impl FleetPlan {
    /// Writes the plans, which are there whole or not at all.
    ///
    /// # Errors
    ///
    /// [`PlanError::File`] when they cannot be written; what was there stays.
    pub fn write(&self, path: &Path) -> Result<(), PlanError> {
        let failed = |source| PlanError::File { action: "write", path: path.to_owned(), source };
        let mut text = serde_json::to_string_pretty(self).map_err(|error| failed(error.into()))?;
        text.push('\n');
        write_whole(path, text.as_bytes()).map_err(failed)
    }

    /// Reads plans, whatever they were made for.
    ///
    /// # Errors
    ///
    /// [`PlanError::File`] or [`PlanError::Malformed`].
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        let failed = |source| PlanError::File { action: "read", path: path.to_owned(), source };
        let text = fs::read_to_string(path).map_err(failed)?;
        parse(&text).map_err(|reason| PlanError::Malformed { path: path.to_owned(), reason })
    }
}

impl MemoryPlan {
    /// Writes the plan of one device, which is there whole or not at all.
    ///
    /// # Errors
    ///
    /// As [`FleetPlan::write`].
    pub fn write(&self, path: &Path) -> Result<(), PlanError> {
        FleetPlan::new(vec![self.clone()]).write(path)
    }

    /// Reads a plan that was made for this program and device, of those that are there; where it may choose whose activations
    /// are recomputed, as it has chosen.
    ///
    /// # Errors
    ///
    /// Those of [`FleetPlan::read`], or [`PlanError::OtherProgram`] with what differs.
    pub fn read(path: &Path, now: &Fingerprint, may_recompute: bool) -> Result<Self, PlanError> {
        let (mut differences, path, mut now) = (Vec::new(), path.to_owned(), now.clone());
        for plan in FleetPlan::read(&path)?.plans {
            if may_recompute {
                now.recompute = plan.fingerprint.recompute;
            }
            match plan.fingerprint.difference(&now) {
                None => return Ok(plan),
                Some(difference) => differences.push(difference),
            }
        }
        // What differs on every device says more than that each is another one.
        let told = differences.iter().position(|it| it.0 != "device").unwrap_or(0);
        Err(match differences.into_iter().nth(told) {
            Some((key, planned, now)) => PlanError::OtherProgram { path, key, planned, now },
            None => PlanError::Malformed { path, reason: "it has no plan".to_owned() },
        })
    }
}

/// Reads the version before anything else: another version may have other keys.
fn parse(text: &str) -> Result<FleetPlan, String> {
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
