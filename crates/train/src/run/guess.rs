//! How much memory there is, as far as anybody can tell.

use plimsoll_policy::CapacityWatch;
use plimsoll_step::GuardedStep;
use plimsoll_types::{Budget, Bytes};

use super::Run;
use crate::config::FitConfig;
use crate::error::TrainError;
use crate::job::Job;

/// One part in so many is added to a guess that turns out too low.
const GROWTH: u64 = 8;

impl<J: Job> Run<'_, J> {
    /// Raises the capacity that a dead process has left as a guess, because one sample alone does not fit into it; returns
    /// whether there was one below what the device says.
    ///
    /// What it held when it was refused more is not all that a new process may need: its thread pools and work space come
    /// on top of the first step.
    pub(super) fn raise_guess(&mut self) -> Result<bool, TrainError> {
        let real = self.guarded.probe().capacity()?;
        let Some(guess) = self.guess.filter(|it| *it < real) else { return Ok(false) };
        self.guess = Some(guess.saturating_add(Bytes(guess.0 / GROWTH)));
        Ok(true)
    }

    /// As [`Self::raise_guess`], in a run that has begun: it goes by the raised one at once, however little more that is.
    pub(super) fn raise_budget(&mut self) -> Result<bool, TrainError> {
        if !self.raise_guess()? {
            return Ok(false);
        }
        self.watch = CapacityWatch::since(self.step);
        self.go_by(read_budget(&self.guarded, self.config, self.guess)?)?;
        Ok(true)
    }
}

/// Reads the capacity, and takes the part of it that a step may use.
pub(super) fn read_budget(
    guarded: &GuardedStep,
    config: &FitConfig,
    guess: Option<Bytes>,
) -> Result<Budget, TrainError> {
    let capacity = guarded.probe().capacity()?;
    let capacity = guess.map_or(capacity, |guess| guess.min(capacity));
    Ok(Budget { capacity, budget: capacity.scale(config.target) })
}
