//! Optimizer steps, epoch after epoch.

use serde::{Deserialize, Serialize};

use super::epoch::EpochPlan;
use super::groups::Groups;
use super::identity::within;
use super::mixing::Mixing;
use super::narrow::narrow;
use super::planner::BatchPlanner;
use super::position::PlanPosition;
use super::step::{PlannedStep, StepSize, positions};
use super::step_queue::{Piece, StepQueue, Waiting};
use crate::{CapacityRule, PlanError, PositionError};

/// Divides each epoch into optimizer steps, and never ends.
///
/// The steps are filled with the epoch's shuffled batches, so that one step has samples of many lengths.
/// A batch that crosses the end of a step is cut, and the rest of it begins the next step in the same cell.
#[derive(Clone, Debug, PartialEq)]
pub struct StepPlanner<R, const AXES: usize = 1> {
    plan: EpochPlan<R, AXES>,
    queue: StepQueue<Counted, AXES>,
    /// What is planned as samples, where that is groups of them.
    groups: Option<Groups>,
}

/// Where the step after the last taken one begins: the batch that it begins in, and how much of it is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepPosition {
    plan: PlanPosition,
    taken: u64,
    /// Samples of the batch that the last step has taken.
    used: u64,
}

/// A sample, or a group of them, and what it counts for in its step.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counted {
    id: u32,
    weight: u64,
    /// Samples of a group.
    n_members: Option<u32>,
}

impl<const AXES: usize> Waiting<AXES> for Counted {
    fn id(&self) -> u64 {
        self.id.into()
    }

    fn weight(&self, _size: StepSize, _cell: [u32; AXES]) -> u64 {
        self.weight
    }

    fn padded(&self, cell: [u32; AXES]) -> u64 {
        match (self.n_members, cell.last()) {
            (Some(n), Some(length)) => u64::from(n) * u64::from(*length),
            _ => positions(cell),
        }
    }
}

impl StepPosition {
    /// The epoch of the next step.
    pub const fn epoch(&self) -> u64 {
        self.plan.epoch
    }

    /// What the epoch has taken: positions where they are counted, or else samples.
    pub const fn taken(&self) -> u64 {
        self.taken
    }
}

impl<R: CapacityRule<AXES> + Clone, const AXES: usize> StepPlanner<R, AXES> {
    /// Stands before the first step of epoch 0.
    ///
    /// # Errors
    ///
    /// [`PlanError::BelowOne`] when a step takes nothing, [`PlanError::DropLastOfSteps`].
    pub fn try_new(planner: &BatchPlanner<R, AXES>, size: StepSize) -> Result<Self, PlanError> {
        Self::with_groups(planner, None, size)
    }

    /// The same with groups of samples, each of which is planned as one.
    pub(super) fn with_groups(
        planner: &BatchPlanner<R, AXES>,
        groups: Option<Groups>,
        size: StepSize,
    ) -> Result<Self, PlanError> {
        size.check()?;
        if planner.config().drop_last && size != StepSize::Batch {
            return Err(PlanError::DropLastOfSteps);
        }
        Ok(Self { plan: planner.epoch(0), queue: StepQueue::new(size), groups })
    }

    /// Ends a step before it has more padded positions, whatever they hold, so that a buffer of a fixed size has room for any;
    /// but one sample, one group, or a step that is one batch may have more.
    #[must_use]
    pub fn with_room(mut self, padded: u64) -> Self {
        self.queue.room = padded;
        self
    }

    /// Goes on where a position was taken, with a planner that is equal to the one of that time.
    ///
    /// # Errors
    ///
    /// Those of [`StepPlanner::try_new`] and [`BatchPlanner::resume`], and [`PositionError::BeyondEpoch`] when the batch
    /// that the step begins in has fewer samples.
    pub fn resume(
        planner: &BatchPlanner<R, AXES>,
        size: StepSize,
        position: &StepPosition,
    ) -> Result<Self, PositionError> {
        Self::try_new(planner, size)?.at(planner, position)
    }

    /// Goes to a position of this planner.
    fn at(mut self, planner: &BatchPlanner<R, AXES>, position: &StepPosition) -> Result<Self, PositionError> {
        let StepPosition { plan, taken, used } = position;
        self.plan = planner.resume(plan)?;
        self.queue.start(plan.epoch, *taken);
        if *used > 0 {
            self.resume_within(*used)?;
        }
        Ok(self)
    }

    /// Passes over what is used of the next batch.
    fn resume_within(&mut self, used: u64) -> Result<(), PositionError> {
        let next = self.plan.next_batch().map(|it| (it.cell, it.ids.to_vec()));
        let (cell, ids) = next.unwrap_or_else(|| ([0; AXES], Vec::new()));
        within("samples used", used, (ids.len() as u64).saturating_sub(1))?;
        let rest = ids.get(usize::try_from(used).unwrap_or(usize::MAX)..).unwrap_or_default();
        self.queue.push(Piece { samples: self.counted(rest, cell), cell });
        Ok(())
    }

    /// Goes back to a position that was taken under a rule, which may be another one than that of now.
    ///
    /// # Errors
    ///
    /// Those of [`StepPlanner::resume`]; the steps then go on as before.
    pub fn go_back(&mut self, rule: R, position: &StepPosition) -> Result<(), PositionError> {
        let planner = self.plan.planner.with_rule(rule)?;
        let steps = Self::with_groups(&planner, self.groups.clone(), self.queue.size)?.with_room(self.queue.room);
        *self = steps.at(&planner, position)?;
        Ok(())
    }

    /// Goes to the first step of an epoch.
    pub fn start(&mut self, epoch: u64) {
        self.plan = self.plan.planner.epoch(epoch);
        self.queue.start(epoch, 0);
    }

    /// Takes the next step; it is empty, and ends its epoch, where `drop_last` leaves all of an epoch out.
    pub fn next_step(&mut self) -> PlannedStep<AXES> {
        loop {
            while self.pull() {}
            let mut step = self.queue.take_step();
            step.ends_epoch = self.queue.pieces.is_empty();
            if step.ends_epoch {
                self.start(step.epoch + 1);
            }
            // A rule that skips more samples than the one before may leave nothing of an epoch that was under way.
            if !step.batches.is_empty() || self.plan.planner.config.drop_last {
                return step;
            }
        }
    }

    /// Where the next step begins.
    pub fn position(&self) -> StepPosition {
        let (n_unused, used) = self.in_progress();
        StepPosition { plan: self.plan.position_within(n_unused), taken: self.queue.taken, used }
    }

    /// Measures how well the epoch under way, as the rule of now plans it, mixes with the next: two epochs are planned for it.
    pub fn mixing(&self) -> Mixing {
        let (planner, epoch) = (&self.plan.planner, self.queue.epoch);
        planner.mixing(epoch, &planner.plan_epoch(epoch))
    }

    /// Follows another capacity rule from the next step on.
    ///
    /// Where it has no room for a multiple, batches have as many samples as fit.
    ///
    /// # Errors
    ///
    /// Those of [`BatchPlanner::try_new`]; the steps then go on as before.
    pub fn change(&mut self, rule: R) -> Result<(), PositionError> {
        let planner = self.plan.planner.with_rule(rule)?;
        self.plan = self.plan.hand_over_within(&planner, self.in_progress().0)?;
        self.queue.start(self.queue.epoch, self.queue.taken);
        Ok(())
    }

    /// How many samples of the last batch no step has taken, and how many the last step has.
    ///
    /// A batch more than the last step needed is enough to tell whether it was the last one, so that there are no others.
    fn in_progress(&self) -> (usize, u64) {
        let n_unused = self.queue.pieces.front().map_or(0, |piece| piece.samples.len());
        let n_used = if n_unused == 0 { 0 } else { self.plan.n_last() - n_unused };
        (n_unused, n_used as u64)
    }

    /// Takes one more batch of the epoch, unless there are enough for a step; says whether it did.
    fn pull(&mut self) -> bool {
        if self.queue.holds_more_than_a_step() {
            return false;
        }
        let Some(batch) = self.plan.next_batch() else { return false };
        let (cell, ids) = (batch.cell, batch.ids.to_vec());
        self.queue.push(Piece { samples: self.counted(&ids, cell), cell });
        true
    }

    /// What each of a batch counts for that is padded to this cell.
    fn counted(&self, ids: &[u32], cell: [u32; AXES]) -> Vec<Counted> {
        let (planner, size) = (&self.plan.planner, self.queue.size);
        let counted = |id: u32| {
            if let Some(groups) = &self.groups {
                let n_members = Some(narrow(groups.members(id).len()));
                return Some(Counted { id, weight: groups.weight(size, id), n_members });
            }
            let lengths = planner.planned_lengths(id)?;
            Some(Counted { id, weight: size.weight(lengths, cell), n_members: None })
        };
        ids.iter().filter_map(|id| counted(*id)).collect()
    }
}
