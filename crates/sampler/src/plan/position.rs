//! Where an epoch stands.

use serde::{Deserialize, Serialize};

use super::draw::Drawn;
use super::planner::{BatchPlanner, Progress};
use crate::{CapacityRule, SamplerError};

/// A place between two batches of an epoch: a few numbers, and the ids carried over into the window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanPosition {
    /// The epoch.
    pub epoch: u64,
    /// Batches of the window that were taken.
    pub batch: u64,
    pub(super) seed: u64,
    pub(super) n_samples: u64,
    /// Samples of a whole window.
    pub(super) window: u64,
    pub(super) drawn: Drawn,
    pub(super) carried: Vec<u32>,
}

impl PlanPosition {
    /// Number of samples that were drawn before this window, some of which may be carried into it.
    pub fn n_drawn(&self) -> u64 {
        self.drawn.total()
    }

    /// The ids carried into the window.
    pub fn carried(&self) -> &[u32] {
        &self.carried
    }

    pub(super) fn new<R: CapacityRule<AXES>, const AXES: usize>(
        planner: &BatchPlanner<R, AXES>,
        progress: &Progress,
        batch: u64,
    ) -> Self {
        Self {
            epoch: progress.epoch,
            batch,
            seed: planner.config.seed,
            n_samples: planner.index.n_samples() as u64,
            window: planner.window() as u64,
            drawn: progress.drawn.clone(),
            carried: progress.carried.clone(),
        }
    }

    /// What the planner goes on with.
    pub(super) fn check<R: CapacityRule<AXES>, const AXES: usize>(
        &self,
        planner: &BatchPlanner<R, AXES>,
    ) -> Result<Progress, SamplerError> {
        let n_samples = planner.index.n_samples() as u64;
        same("seed", self.seed, planner.config.seed)?;
        same("n_samples", self.n_samples, n_samples)?;
        if self.batch > 0 {
            same("window", self.window, planner.window() as u64)?;
        }
        let sizes = planner.source.sizes();
        same("task shares", self.drawn.drawn.len() as u64, sizes.len() as u64)?;
        same("task shares", self.drawn.since.len() as u64, sizes.len() as u64)?;
        let limits = self.drawn.since.iter().zip(&self.drawn.drawn).chain(self.drawn.drawn.iter().zip(&sizes));
        for (value, most) in limits {
            within("drawn", *value, *most)?;
        }
        for id in &self.carried {
            within("carried", u64::from(*id), n_samples - 1)?;
        }
        within("carried samples", self.carried.len() as u64, self.drawn.total())?;
        Ok(Progress { epoch: self.epoch, drawn: self.drawn.clone(), carried: self.carried.clone() })
    }
}

const fn same(key: &'static str, taken: u64, here: u64) -> Result<(), SamplerError> {
    if taken == here { Ok(()) } else { Err(SamplerError::OtherPlan { key, taken, here }) }
}

pub(super) const fn within(key: &'static str, value: u64, most: u64) -> Result<(), SamplerError> {
    if value <= most { Ok(()) } else { Err(SamplerError::BeyondEpoch { key, value, most }) }
}
