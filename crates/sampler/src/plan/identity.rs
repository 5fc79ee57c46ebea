//! What a position was taken in, and whether that is what is here.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::PositionError;

/// What tells a plan from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) seed: u64,
    pub(crate) n_samples: u64,
    /// Samples of a whole window.
    pub(crate) window: u64,
    /// Fingerprints.
    pub(crate) lengths: u64,
    pub(crate) configuration: u64,
    pub(crate) rule: u64,
}

impl Identity {
    /// Refuses a position of another plan.
    pub(crate) fn check(&self, here: &Self) -> Result<(), PositionError> {
        self.check_order(here)?;
        same("window", self.window, here.window)?;
        same("fingerprint of the configuration", self.configuration, here.configuration)?;
        same("fingerprint of the capacity rule", self.rule, here.rule)
    }

    /// Refuses what draws other samples, or in another order.
    pub(super) fn check_order(&self, here: &Self) -> Result<(), PositionError> {
        same("seed", self.seed, here.seed)?;
        same("n_samples", self.n_samples, here.n_samples)?;
        same("fingerprint of the lengths", self.lengths, here.lengths)
    }
}

/// Refuses what differs from what is here.
pub(crate) const fn same(key: &'static str, taken: u64, here: u64) -> Result<(), PositionError> {
    if taken == here { Ok(()) } else { Err(PositionError::OtherPlan { key, taken, here }) }
}

/// Refuses a value above the most that there is.
pub(crate) const fn within(key: &'static str, value: u64, most: u64) -> Result<(), PositionError> {
    if value <= most { Ok(()) } else { Err(PositionError::BeyondEpoch { key, value, most }) }
}

/// The version of positions, which is read before all else; one of another version is refused by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version;

impl Version {
    /// Since 2, ids are written to base 85, and a stream's position holds its batches; since 3, a position of rows says how
    /// much was drawn of each task.
    const NUMBER: u32 = 3;
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::NUMBER.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u32::deserialize(deserializer)? {
            Self::NUMBER => Ok(Self),
            other => Err(D::Error::custom(format!(
                "resume an epoch: the position is of `version` {other}, this program reads version {}",
                Self::NUMBER
            ))),
        }
    }
}
