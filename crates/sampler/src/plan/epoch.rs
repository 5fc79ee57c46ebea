//! An epoch, window by window.

use super::batches::{Batch, OwnedBatch};
use super::identity::{Version, same, within};
use super::planner::BatchPlanner;
use super::position::{Left, PlanPosition, Progress};
use super::window::Window;
use crate::hash::mix;
use crate::{CapacityRule, PositionError};

/// The batches of one epoch in order, of which one window is planned at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochPlan<R, const AXES: usize> {
    pub(super) planner: BatchPlanner<R, AXES>,
    /// Before the window, and after it.
    before: Progress,
    after: Progress,
    /// What other rules have left of the window.
    left: Option<Left>,
    window: Window<AXES>,
    taken: Taken,
}

/// The batches of the window that were taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Taken {
    n: usize,
    /// What they hold, and what they held without the last one.
    digest: u64,
    digest_before: u64,
}

impl<R: CapacityRule<AXES>, const AXES: usize> BatchPlanner<R, AXES> {
    /// Iterates over the batches of an epoch, of which one window is planned at a time.
    pub fn batches(&self, epoch: u64) -> EpochPlan<R, AXES>
    where
        R: Clone,
    {
        self.epoch(epoch)
    }

    /// Starts an epoch that is planned window by window.
    pub fn epoch(&self, epoch: u64) -> EpochPlan<R, AXES>
    where
        R: Clone,
    {
        EpochPlan::new(self.clone(), self.start(epoch))
    }

    /// Goes on where a position was taken; plans one window at most.
    ///
    /// # Errors
    ///
    /// [`PositionError::OtherPlan`] when the position was taken with other samples, another configuration or another
    /// rule: a change goes through [`EpochPlan::hand_over`], or it would repeat samples and lose others.
    /// [`PositionError::BeyondEpoch`] when it is none that the epoch reaches.
    pub fn resume(&self, position: &PlanPosition) -> Result<EpochPlan<R, AXES>, PositionError>
    where
        R: Clone,
    {
        EpochPlan::resume(self.clone(), position)
    }

    /// What it goes on with at a position.
    fn progress_at(&self, position: &PlanPosition) -> Result<Progress, PositionError> {
        let PlanPosition { epoch, of, drawn, carried, left, .. } = position;
        of.check(&self.identity)?;
        let n_samples = of.n_samples;
        self.source.check_drawn(drawn)?;
        for id in position.carried() {
            within("carried", u64::from(*id), n_samples - 1)?;
        }
        within("carried samples", carried.0.len() as u64, drawn.total())?;
        if let Some(left) = left {
            within("samples of the window", left.n_drawn, self.source.total() - drawn.total())?;
        }
        Ok(Progress { epoch: *epoch, drawn: drawn.clone(), carried: carried.clone() })
    }
}

impl<R: CapacityRule<AXES>, const AXES: usize> Iterator for EpochPlan<R, AXES> {
    type Item = OwnedBatch<AXES>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch()
            .map(|batch| OwnedBatch { ids: batch.ids.iter().copied().map(u64::from).collect(), cell: batch.cell })
    }
}

impl<R: CapacityRule<AXES>, const AXES: usize> EpochPlan<R, AXES> {
    fn new(planner: BatchPlanner<R, AXES>, progress: Progress) -> Self {
        let (before, after) = (progress.clone(), progress);
        Self { planner, before, after, left: None, window: Window::default(), taken: Taken::default() }
    }

    /// Stands before the first batch of what a window has left.
    fn with_left(planner: BatchPlanner<R, AXES>, progress: Progress, left: Left) -> Result<Self, PositionError> {
        let mut plan = Self::new(planner, progress);
        plan.planner.plan_left(&left, &mut plan.after, &mut plan.window)?;
        plan.left = Some(left);
        Ok(plan)
    }

    /// Goes on where a position was taken.
    fn resume(planner: BatchPlanner<R, AXES>, position: &PlanPosition) -> Result<Self, PositionError> {
        let progress = planner.progress_at(position)?;
        let mut plan = match &position.left {
            Some(left) => Self::with_left(planner, progress, left.clone())?,
            None => Self::new(planner, progress),
        };
        if position.batch > 0 && plan.left.is_none() {
            plan.plan_window();
        }
        within("batch", position.batch, plan.window.batches.len() as u64)?;
        for _ in 0..position.batch {
            plan.count_taken();
        }
        same("fingerprint of the batches so far", position.digest, plan.taken.digest)?;
        Ok(plan)
    }

    /// Takes the next batch; `None` when the epoch has no more.
    pub fn next_batch(&mut self) -> Option<Batch<'_, AXES>> {
        while self.taken.n == self.window.batches.len() {
            if !self.plan_window() {
                return None;
            }
        }
        self.count_taken();
        self.window.batches.get(self.taken.n - 1)
    }

    /// Where the epoch stands; [`BatchPlanner::resume`] of an equal planner goes on there.
    ///
    /// Taking it copies a few numbers, whatever the size of the window.
    pub fn position(&self) -> PlanPosition {
        self.position_within(0)
    }

    /// Where the epoch stands when so many samples of the last batch are not used: before that batch, if there are any.
    pub(super) fn position_within(&self, n_unused: usize) -> PlanPosition {
        let Taken { n, digest, digest_before } = self.taken;
        if n_unused > 0 {
            return self.position_at(&self.before, self.left.clone(), (n - 1, digest_before));
        }
        if n == self.window.batches.len() {
            return self.position_at(&self.after, None, (0, 0));
        }
        self.position_at(&self.before, self.left.clone(), (n, digest))
    }

    fn position_at(&self, progress: &Progress, left: Option<Left>, (n, digest): (usize, u64)) -> PlanPosition {
        let Progress { epoch, drawn, carried } = progress.clone();
        PlanPosition {
            version: Version,
            epoch,
            batch: n as u64,
            of: self.planner.identity,
            drawn,
            carried,
            left,
            digest,
        }
    }

    /// Samples of the last batch that was taken.
    pub(super) fn n_last(&self) -> usize {
        self.taken.n.checked_sub(1).and_then(|last| self.window.batches.get(last)).map_or(0, |batch| batch.ids.len())
    }

    /// Goes on with a planner of another capacity rule, lattice or window: what this window has left is planned anew,
    /// so that each sample still comes once.
    ///
    /// # Errors
    ///
    /// [`PositionError::OtherPlan`] when the planner has other samples, another seed or other shares.
    pub fn hand_over<Q: CapacityRule<AXES> + Clone>(
        &self,
        planner: &BatchPlanner<Q, AXES>,
    ) -> Result<EpochPlan<Q, AXES>, PositionError> {
        self.hand_over_within(planner, 0)
    }

    /// The same when so many samples of the last batch are not used.
    pub(super) fn hand_over_within<Q: CapacityRule<AXES> + Clone>(
        &self,
        planner: &BatchPlanner<Q, AXES>,
        n_unused: usize,
    ) -> Result<EpochPlan<Q, AXES>, PositionError> {
        self.planner.identity.check_order(&planner.identity)?;
        self.planner.source.check_shares(&planner.source)?;
        if n_unused == 0 && self.taken.n == self.window.batches.len() {
            return Ok(EpochPlan::new(planner.clone(), self.after.clone()));
        }
        let used = self.window.batches.iter().take(self.taken.n).flat_map(|batch| batch.ids).copied();
        let mut used: Vec<u32> = used.collect();
        used.truncate(used.len() - n_unused);
        let n_drawn = self.after.drawn.total() - self.before.drawn.total();
        // Another lattice has other kinds.
        let same_kinds = self.planner.identity.configuration == planner.identity.configuration;
        let left = self.planner.left(&self.before, n_drawn, self.left.as_ref(), &used, same_kinds)?;
        EpochPlan::with_left(planner.clone(), self.before.clone(), left)
    }

    fn plan_window(&mut self) -> bool {
        self.before.clone_from(&self.after);
        (self.left, self.taken) = (None, Taken::default());
        self.planner.plan_window(&mut self.after, &mut self.window)
    }

    /// Counts the next batch of the window as taken.
    fn count_taken(&mut self) {
        let Taken { n, digest, .. } = self.taken;
        let batch = self.window.batches.get(n).map_or((0, 0), |it| (it.ids.len() as u64, it.ids[0]));
        let word = batch.0 << 32 | u64::from(batch.1);
        self.taken = Taken { n: n + 1, digest: mix(digest ^ word), digest_before: digest };
    }
}
