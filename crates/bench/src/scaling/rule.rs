//! Who takes how much of a step.

use plimsoll_sampler::Taker;
use serde::Serialize;

use super::{Class, StepCost};

/// How a step is dealt, and in which micro-batches a share runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Equal shares in micro-batches that the smallest device has room for, as where one number is set for all.
    Smallest,
    /// Equal shares, in micro-batches that each has room for.
    Equal,
    /// Shares as the rooms are.
    Room,
    /// Shares as fast as each is in the micro-batches that it has room for.
    Speed,
    /// As many positions as with [`Self::Speed`], but samples that follow one another in length, the longest where most room is:
    /// not as `deal` deals.
    Runs,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Smallest, Self::Equal, Self::Room, Self::Speed, Self::Runs];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Smallest => "smallest",
            Self::Equal => "equal",
            Self::Room => "room",
            Self::Speed => "speed",
            Self::Runs => "runs",
        }
    }

    /// Returns how many positions a micro-batch of each device has at most.
    pub fn limits(self, devices: &[Class]) -> Vec<u64> {
        let smallest = devices.iter().map(|it| it.room).min().unwrap_or(0);
        devices.iter().map(|it| if self == Self::Smallest { smallest } else { it.room }).collect()
    }

    /// Returns what each device takes.
    pub fn takers(self, devices: &[Class], cost: &StepCost) -> Vec<Taker> {
        let taker = |(device, limit): (&Class, u64)| {
            let weight = match self {
                Self::Smallest | Self::Equal => 1,
                Self::Room => device.room,
                Self::Speed | Self::Runs => positions_per_second(device, cost),
            };
            Taker { weight, largest: limit }
        };
        devices.iter().zip(self.limits(devices)).map(taker).collect()
    }
}

/// How fast a device is when it fills its room.
fn positions_per_second(device: &Class, cost: &StepCost) -> u64 {
    let seconds = cost.seconds(1, device.room, device.speed) - cost.step;
    // A weight is a whole number: some thousand positions at least, each of them a thousandth.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is positive, and below 2^53")]
    let weight = (1e3 * device.room as f64 / seconds).round() as u64;
    weight
}
