//! Who takes how much of a step.

use plimsoll_sampler::Speeds;
use serde::Serialize;

use super::Class;

/// How a step is dealt, and in which micro-batches a share runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Equal shares in micro-batches that the smallest device has room for, as where one number is set for all.
    Smallest,
    /// Equal shares, in micro-batches that each has room for: as a run deals while it knows no speed.
    Equal,
    /// Shares as the rooms are.
    Room,
    /// Shares as fast as each was in the steps before: as a run deals.
    Speed,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Smallest, Self::Equal, Self::Room, Self::Speed];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Smallest => "smallest",
            Self::Equal => "equal",
            Self::Room => "room",
            Self::Speed => "speed",
        }
    }

    /// Returns how many positions a micro-batch of each device has at most.
    pub fn rooms(self, devices: &[Class]) -> Vec<u64> {
        let smallest = devices.iter().map(|it| it.room).min().unwrap_or(0);
        devices.iter().map(|it| if self == Self::Smallest { smallest } else { it.room }).collect()
    }

    /// Returns what each device takes beside the others, of which so much is known, and what a micro-batch takes by itself.
    pub fn weights(self, devices: &[Class], known: &Speeds) -> (Vec<f64>, Option<f64>) {
        match self {
            Self::Smallest | Self::Equal => (vec![1.0; devices.len()], None),
            Self::Room => (devices.iter().map(|it| it.room as f64).collect(), None),
            Self::Speed => (known.weights(), known.overhead()),
        }
    }
}
