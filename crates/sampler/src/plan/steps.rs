//! Optimizer steps, epoch after epoch.

use serde::{Deserialize, Serialize};

use super::config::Objective;
use super::epoch::EpochPlan;
use super::planner::BatchPlanner;
use super::position::{PlanPosition, within};
use super::step::{PlannedStep, StepSize};
use super::step_queue::{Piece, StepQueue, Waiting};
use crate::{CapacityRule, SamplerError};

/// Divides each epoch into optimizer steps, and never ends.
///
/// The steps are filled with the epoch's shuffled batches, so that one step has samples of many lengths.
/// A batch that crosses the end of a step is cut, and the rest of it begins the next step in the same cell.
#[derive(Clone, Debug, PartialEq)]
pub struct StepPlanner<R> {
    plan: EpochPlan<R, 1>,
    queue: StepQueue<Counted>,
}

/// Where the step after the last taken one begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepPosition {
    plan: PlanPosition,
    taken: u64,
    /// What the last step left of a batch, and the length that it is padded to.
    rest: Vec<u32>,
    edge: u32,
}

/// A sample with the length that it is planned with.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counted {
    id: u32,
    length: u32,
}

impl Waiting for Counted {
    fn id(&self) -> u64 {
        self.id.into()
    }

    fn length(&self) -> u32 {
        self.length
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

impl<R: CapacityRule<1> + Clone> StepPlanner<R> {
    /// Stands before the first step of epoch 0.
    ///
    /// # Errors
    ///
    /// [`SamplerError::BelowOne`] when a step takes nothing, [`SamplerError::PackedSteps`] when the planner lays
    /// samples end to end.
    pub fn try_new(planner: &BatchPlanner<R, 1>, size: StepSize) -> Result<Self, SamplerError> {
        size.check()?;
        if planner.config().objective == Objective::FewestRows {
            return Err(SamplerError::PackedSteps);
        }
        Ok(Self { plan: planner.epoch(0), queue: StepQueue::new(size, 0, 0) })
    }

    /// Goes on where a position was taken, with a planner that is equal to the one of that time.
    ///
    /// # Errors
    ///
    /// Those of [`StepPlanner::try_new`] and [`BatchPlanner::resume`], and [`SamplerError::BeyondEpoch`] when the rest
    /// of a batch does not fit.
    pub fn resume(planner: &BatchPlanner<R, 1>, size: StepSize, position: &StepPosition) -> Result<Self, SamplerError> {
        let StepPosition { plan, taken, rest, edge } = position;
        let mut steps = Self::try_new(planner, size)?;
        for id in rest {
            within("rest", u64::from(*id), planner.index().n_samples() as u64 - 1)?;
        }
        within("samples of the rest", rest.len() as u64, u64::from(planner.capacity([*edge])))?;
        steps.plan = planner.resume(plan)?;
        steps.queue = StepQueue::new(size, plan.epoch, *taken);
        if !rest.is_empty() {
            steps.queue.push(Piece { samples: planner.counted(rest), edge: *edge });
        }
        Ok(steps)
    }

    /// Takes the next step.
    pub fn next_step(&mut self) -> PlannedStep {
        loop {
            while self.pull() {}
            let mut step = self.queue.take_step();
            step.ends_epoch = self.queue.pieces.is_empty();
            if step.ends_epoch {
                self.start(step.epoch + 1);
            }
            // A rule that skips more samples than the one before may leave nothing of an epoch that was under way.
            if !step.batches.is_empty() {
                return step;
            }
        }
    }

    /// Where the next step begins.
    pub fn position(&self) -> StepPosition {
        // A batch more than the last step needed is enough to tell whether it was the last one.
        let rest = self.queue.pieces.front();
        StepPosition {
            plan: self.plan.position(),
            taken: self.queue.taken,
            rest: rest.map_or_else(Vec::new, |piece| piece.samples.iter().map(|sample| sample.id).collect()),
            edge: rest.map_or(0, |piece| piece.edge),
        }
    }

    /// Follows another capacity rule from the next step on.
    ///
    /// # Errors
    ///
    /// Those of [`BatchPlanner::try_new`]; the steps then go on as before.
    pub fn change(&mut self, rule: R) -> Result<(), SamplerError> {
        let planner = self.plan.planner.with_rule(rule)?;
        self.plan = planner.resume(&self.hand_over())?;
        self.queue = StepQueue::new(self.queue.size, self.queue.epoch, self.queue.taken);
        Ok(())
    }

    /// The epoch with everything that no step has taken.
    fn hand_over(&self) -> PlanPosition {
        let mut position = self.plan.hand_over();
        let left = self.queue.pieces.iter().flat_map(|piece| &piece.samples);
        position.carried.extend(left.map(|sample| sample.id));
        position
    }

    /// Takes one more batch of the epoch, unless there are enough for a step; says whether it did.
    fn pull(&mut self) -> bool {
        if self.queue.holds_more_than_a_step() {
            return false;
        }
        let Some(batch) = self.plan.next_batch() else { return false };
        let ([edge], ids) = (batch.cell, batch.ids.to_vec());
        self.queue.push(Piece { samples: self.plan.planner.counted(&ids), edge });
        true
    }

    fn start(&mut self, epoch: u64) {
        self.plan = self.plan.planner.epoch(epoch);
        self.queue = StepQueue::new(self.queue.size, epoch, 0);
    }
}

impl<R: CapacityRule<1>> BatchPlanner<R, 1> {
    fn counted(&self, ids: &[u32]) -> Vec<Counted> {
        let counted = |id: &u32| self.planned_lengths(*id).map(|[length]| Counted { id: *id, length });
        ids.iter().filter_map(counted).collect()
    }
}
