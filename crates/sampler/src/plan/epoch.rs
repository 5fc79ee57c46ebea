//! An epoch, window by window.

use super::batches::Batch;
use super::planner::{BatchPlanner, Progress};
use super::position::{PlanPosition, within};
use super::window::Window;
use crate::{CapacityRule, SamplerError};

/// The batches of one epoch in order, of which one window is planned at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochPlan<R, const AXES: usize> {
    pub(super) planner: BatchPlanner<R, AXES>,
    /// Before the window, and after it.
    before: Progress,
    after: Progress,
    window: Window<AXES>,
    n_taken: usize,
}

impl<R: CapacityRule<AXES>, const AXES: usize> EpochPlan<R, AXES> {
    pub(super) fn new(planner: BatchPlanner<R, AXES>, progress: Progress) -> Self {
        Self { planner, before: progress.clone(), after: progress, window: Window::default(), n_taken: 0 }
    }

    /// Takes the next batch; `None` when the epoch has no more.
    pub fn next_batch(&mut self) -> Option<Batch<'_, AXES>> {
        while self.n_taken == self.window.batches.len() {
            if !self.plan_window() {
                return None;
            }
        }
        let batch = self.window.batches.get(self.n_taken);
        self.n_taken += 1;
        batch
    }

    /// Where the epoch stands; [`BatchPlanner::resume`] of an equal planner goes on there.
    ///
    /// The position holds at most as many ids as a window has samples, and usually those of one partial batch.
    pub fn position(&self) -> PlanPosition {
        if self.n_taken == self.window.batches.len() {
            return PlanPosition::new(&self.planner, &self.after, 0);
        }
        PlanPosition::new(&self.planner, &self.before, self.n_taken as u64)
    }

    /// Where the epoch stands, for a planner with another capacity rule, lattice or window: the samples that this
    /// window has left are carried over, so that each still comes once.
    pub fn hand_over(&self) -> PlanPosition {
        let mut position = PlanPosition::new(&self.planner, &self.after, 0);
        let left = self.window.batches.iter().skip(self.n_taken);
        position.carried.extend(left.flat_map(|batch| batch.ids));
        position
    }

    /// Takes some batches of the next window.
    pub(super) fn skip(mut self, n_batches: u64) -> Result<Self, SamplerError> {
        if n_batches > 0 {
            self.plan_window();
            within("batch", n_batches, self.window.batches.len() as u64)?;
            self.n_taken = self.window.batches.len().min(usize::try_from(n_batches).unwrap_or(usize::MAX));
        }
        Ok(self)
    }

    fn plan_window(&mut self) -> bool {
        self.before.clone_from(&self.after);
        self.n_taken = 0;
        self.planner.plan_window(&mut self.after, &mut self.window)
    }
}
