//! Where an epoch of rows stands.

use serde::{Deserialize, Serialize};

use super::carried::Carried;
use crate::plan::draw::Drawn;
use crate::plan::identity::{Identity, Version};

/// A place between two rows of an epoch: a few numbers, two for each task that has a share, and the pieces that the window before
/// left over (512 at most).
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
    pub(super) drawn: Drawn,
    pub(super) carried: Carried,
    /// What the rows that were taken hold.
    pub(super) digest: u64,
}

/// What an epoch has packed so far.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Progress {
    pub(super) epoch: u64,
    pub(super) drawn: Drawn,
    pub(super) carried: Carried,
}
