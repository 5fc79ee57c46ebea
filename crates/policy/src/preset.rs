//! Bounds and targets that suit a card of a given size.

use std::fmt;
use std::ops::RangeInclusive;

use plimsoll_types::Bytes;
use serde::{Deserialize, Serialize};

use crate::Bounds;

/// A starting point for a device of some capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// Less than 8 GiB: a CPU, or a device capped for a test.
    Small,
    /// A 10 GB card; from 8 GiB.
    Card10,
    /// A 12 GB card; from 11 GiB, because a driver keeps some of the 12 for itself.
    Card12,
    /// A 24 GB card; from 22 GiB, for the same reason.
    Card24,
}

impl Preset {
    /// Returns the preset of the largest card that is no larger than this one.
    pub fn for_capacity(capacity: Bytes) -> Self {
        if capacity < Bytes::gib(8) {
            Self::Small
        } else if capacity < Bytes::gib(11) {
            Self::Card10
        } else if capacity < Bytes::gib(22) {
            Self::Card12
        } else {
            Self::Card24
        }
    }

    /// Returns the name to show.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Small => "small device",
            Self::Card10 => "10 GB card",
            Self::Card12 => "12 GB card",
            Self::Card24 => "24 GB card",
        }
    }

    /// Returns the bounds, for a model that takes any patch size: `patch_multiple` is the model's, not the card's.
    pub const fn bounds(self) -> Bounds {
        let (patch_min, patch_max, batch_min, batch_max) = match self {
            // A batch of 5 or more, because Burn's Flex takes another, four times slower convolution path below.
            Self::Small => (16, 32, 8, 64),
            Self::Card10 => (32, 192, 2, 32),
            Self::Card12 => (32, 256, 2, 64),
            Self::Card24 => (64, 512, 4, 128),
        };
        Bounds { patch_min, patch_max, patch_multiple: 1, batch_min, batch_max }
    }

    /// Returns the shares of the capacity to aim at.
    pub const fn target(self) -> RangeInclusive<f64> {
        match self {
            Self::Small => 0.9..=0.9,
            Self::Card10 => 0.75..=0.80,
            Self::Card12 => 0.80..=0.85,
            Self::Card24 => 0.85..=0.90,
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bounds, target) = (self.bounds(), self.target());
        let Bounds { patch_min, patch_max, batch_min, batch_max, .. } = bounds;
        write!(f, "{}: patch {patch_min} to {patch_max}, batch {batch_min} to {batch_max}, ", self.name())?;
        write!(f, "target {:.2} to {:.2}", target.start(), target.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_gets_the_preset_of_its_size_or_the_next_smaller() {
        let check = |mib, shown: &str| assert_eq!(Preset::for_capacity(Bytes::mib(mib)).to_string(), shown);
        check(192, "small device: patch 16 to 32, batch 8 to 64, target 0.90 to 0.90");
        check((8 << 10) - 1, "small device: patch 16 to 32, batch 8 to 64, target 0.90 to 0.90");
        check(10_009, "10 GB card: patch 32 to 192, batch 2 to 32, target 0.75 to 0.80");
        check(12_045, "12 GB card: patch 32 to 256, batch 2 to 64, target 0.80 to 0.85");
        check(16_376, "12 GB card: patch 32 to 256, batch 2 to 64, target 0.80 to 0.85");
        check(24_183, "24 GB card: patch 64 to 512, batch 4 to 128, target 0.85 to 0.90");
        check(143_771, "24 GB card: patch 64 to 512, batch 4 to 128, target 0.85 to 0.90");
    }

    #[test]
    fn every_preset_makes_a_ladder() {
        for preset in [Preset::Small, Preset::Card10, Preset::Card12, Preset::Card24] {
            assert!(crate::ladder(&preset.bounds()).is_ok(), "{preset}");
            assert!(crate::ladder(&Bounds { patch_multiple: 16, ..preset.bounds() }).is_ok(), "{preset}");
        }
    }
}
