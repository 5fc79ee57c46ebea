//! Where an epoch stands.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::compact::{Bits, Ids};
use super::draw::Drawn;
use super::planner::{BatchPlanner, Progress};
use crate::{CapacityRule, PositionError};

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

impl PlanPosition {
    /// Number of samples that were drawn before this window, some of which may be carried into it.
    pub fn n_drawn(&self) -> u64 {
        self.drawn.total()
    }

    /// The ids carried into the window.
    pub fn carried(&self) -> &[u32] {
        &self.carried.0
    }

    /// What the planner goes on with.
    pub(super) fn check<R: CapacityRule<AXES>, const AXES: usize>(
        &self,
        planner: &BatchPlanner<R, AXES>,
    ) -> Result<Progress, PositionError> {
        self.of.check(&planner.identity)?;
        let n_samples = self.of.n_samples;
        let sizes = planner.source.sizes();
        same("task shares", self.drawn.drawn.len() as u64, sizes.len() as u64)?;
        same("task shares", self.drawn.since.len() as u64, sizes.len() as u64)?;
        let limits = self.drawn.since.iter().zip(&self.drawn.drawn).chain(self.drawn.drawn.iter().zip(&sizes));
        for (value, most) in limits {
            within("drawn", *value, *most)?;
        }
        for id in self.carried() {
            within("carried", u64::from(*id), n_samples - 1)?;
        }
        within("carried samples", self.carried().len() as u64, self.drawn.total())?;
        if let Some(left) = &self.left {
            within("samples of the window", left.n_drawn, planner.source.total() - self.drawn.total())?;
        }
        Ok(Progress { epoch: self.epoch, drawn: self.drawn.clone(), carried: self.carried.clone() })
    }
}

pub(crate) const fn same(key: &'static str, taken: u64, here: u64) -> Result<(), PositionError> {
    if taken == here { Ok(()) } else { Err(PositionError::OtherPlan { key, taken, here }) }
}

pub(crate) const fn within(key: &'static str, value: u64, most: u64) -> Result<(), PositionError> {
    if value <= most { Ok(()) } else { Err(PositionError::BeyondEpoch { key, value, most }) }
}

/// The version of positions, which is read before all else; one of another version is refused by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version;

impl Version {
    /// Since 2, ids are written to base 85, and a stream's position holds its batches.
    const NUMBER: u32 = 2;
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
