//! Where an epoch of rows stands.

use serde::{Deserialize, Serialize};

use super::carried::Carried;
use super::planner::{PackPlanner, Progress};
use crate::PositionError;
use crate::plan::position::{Identity, Version, within};

/// A place between two rows of an epoch: a few numbers, and the pieces that the window before left over (512 at most).
///
/// It says what it was taken in, by fingerprints; of the rule it says nothing, since rows do not depend on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackPosition {
    pub(super) version: Version,
    /// The epoch.
    pub epoch: u64,
    /// Rows of the window that were taken.
    pub row: u64,
    pub(super) of: Identity,
    /// Samples that were drawn before the window.
    pub(super) drawn: u64,
    pub(super) carried: Carried,
    /// What the rows that were taken hold.
    pub(super) digest: u64,
}

impl PackPosition {
    /// What the planner goes on with.
    pub(super) fn check(&self, planner: &PackPlanner) -> Result<Progress, PositionError> {
        let here = planner.identity();
        self.of.check(&here)?;
        within("drawn", self.drawn, here.n_samples)?;
        for key in self.carried.0.iter() {
            planner.piece(*key).ok_or(PositionError::BeyondEpoch {
                key: "carried",
                value: *key,
                most: here.n_samples,
            })?;
        }
        Ok(Progress { epoch: self.epoch, drawn: self.drawn, carried: self.carried.clone() })
    }
}
