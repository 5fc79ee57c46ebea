//! Where a stream stands.

use serde::{Deserialize, Serialize};

use super::identity::{Version, same};
use super::pending::Pending;
use crate::PositionError;
use crate::hash::digest;

/// A place between two batches of a stream: what it holds there, and in which batches.
///
/// It says what it was taken in, by a fingerprint of the configuration; of the rule it says nothing, since any may follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamPosition<const AXES: usize> {
    pub(super) version: Version,
    /// The epoch.
    pub epoch: u64,
    /// The samples that were pushed and are in no batch that was taken: what a resumed stream pushes first.
    pub pending: Pending<AXES>,
    pub(super) of: StreamIdentity,
    /// Windows of the epoch that were planned.
    pub(super) n_windows: u64,
    /// Whether the stream had ended.
    pub(super) finished: bool,
}

/// What tells a stream from others, as far as that is known before its samples come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StreamIdentity {
    seed: u64,
    /// A fingerprint.
    configuration: u64,
}

impl StreamIdentity {
    pub(crate) fn new(seed: u64, configuration: &impl std::fmt::Debug) -> Self {
        Self { seed, configuration: digest(format!("{configuration:?}").as_bytes()) }
    }

    /// Refuses a position of another stream.
    pub(crate) fn check(self, here: Self) -> Result<(), PositionError> {
        same("seed", self.seed, here.seed)?;
        same("fingerprint of the configuration", self.configuration, here.configuration)
    }
}

impl<const AXES: usize> StreamPosition<AXES> {
    /// Stands before the next epoch, when all of this one is taken.
    pub(super) const fn begin_next(&mut self) {
        (self.epoch, self.n_windows, self.finished) = (self.epoch + 1, 0, false);
    }
}
