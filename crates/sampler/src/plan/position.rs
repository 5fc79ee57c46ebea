//! Where an epoch stands.

use serde::{Deserialize, Serialize};

use super::compact::{Bits, Ids};
use super::draw::Drawn;
use super::identity::{Identity, Version};
use crate::PositionError;

/// A place between two batches of an epoch, in 4 kB at most with the default window.
///
/// It says what it was taken in, by fingerprints of the lengths, of the configuration and of the rule; which batches of
/// the window were taken, by their number; and what the rules before this one have taken of the window, by a number for
/// each kind of sample, or a bit for each sample of a small window, however many there were.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanPosition {
    pub(super) version: Version,
    /// The epoch.
    pub epoch: u64,
    /// Batches that were taken of the window, or of what it had left when the rule changed.
    pub batch: u64,
    pub(super) of: Identity,
    /// What was drawn before the window.
    pub(super) drawn: Drawn,
    pub(super) carried: Ids,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) left: Option<Left>,
    /// What the batches that were taken hold.
    pub(super) digest: u64,
}

/// What a change of the rule has left of a window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Left {
    /// Samples that were drawn for the window.
    pub(super) n_drawn: u64,
    /// Whether samples are told apart by their kinds only.
    pub(super) by_kind: bool,
    /// How many of each kind are taken, or whether each sample is.
    pub(super) taken: Bits,
}

/// What an epoch has planned so far.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Progress {
    pub(super) epoch: u64,
    pub(super) drawn: Drawn,
    /// Samples of the last, partial batches, which come into the next window.
    pub(super) carried: Ids,
}

impl Left {
    /// Those of the window's samples that are not taken, when a bit for each says it.
    pub(super) fn waiting(&self, samples: Vec<u32>) -> Result<Vec<u32>, PositionError> {
        let mut bits = self.taken.reader();
        let most = samples.len() as u64;
        let wrong = || PositionError::BeyondEpoch { key: "samples taken", value: u64::MAX, most };
        let mut waiting = Vec::new();
        for id in samples {
            if bits.next(1).ok_or_else(wrong)? == 0 {
                waiting.push(id);
            }
        }
        Ok(waiting)
    }
}

impl PlanPosition {
    /// Number of samples that were drawn before this window, some of which may be carried into it.
    pub fn n_drawn(&self) -> u64 {
        self.drawn.total()
    }

    /// The ids carried into the window.
    pub fn carried(&self) -> &[u32] {
        &self.carried.0
    }
}
