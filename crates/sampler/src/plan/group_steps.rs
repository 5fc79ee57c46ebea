//! Optimizer steps of groups that stay together.

use std::cmp::Reverse;

use super::config::PlanConfig;
use super::group_rule::GroupRule;
use super::groups::{Groups, of_groups};
use super::mixing::Mixing;
use super::narrow::narrow;
use super::step::{PlannedStep, StepBatch, StepSize};
use super::steps::{StepPlanner, StepPosition};
use crate::{CapacityRule, OwnedBatch, PlanError, PositionError};

/// Divides each epoch into optimizer steps of whole groups, and never ends.
///
/// All samples of a group are in one step, and in one batch of it where so many fit; a group that does not fit is divided
/// into batches of its own.
/// A step counts samples, or positions, as [`StepSize`] says, and ends with the group by which the epoch reaches the next
/// multiple of its size.
/// So steps have that size on average, and exactly where groups divide it; one has less than a group more or less.
///
/// ```
/// use plimsoll_sampler::{Groups, PaddedBudget, PlanConfig, StepSize};
///
/// // Both sentences of each pair.
/// let n_tokens: Vec<u32> = (0..2_000u32).map(|id| 20 + id * 7919 % 81).collect();
/// let pair_of: Vec<u32> = (0..2_000u32).map(|id| id / 2).collect();
/// let pairs = Groups::try_new(&n_tokens, &pair_of)?;
/// let mut steps = pairs.steps(PaddedBudget([1_000]), PlanConfig::default(), StepSize::Samples(64))?;
/// let step = steps.next_step();
/// let mut ids: Vec<u64> = step.batches.into_iter().flat_map(|batch| batch.ids).collect();
/// ids.sort_unstable();
/// assert!(ids.len() == 64 && ids.chunks(2).all(|pair| pair[0] + 1 == pair[1] && pair[0] % 2 == 0));
/// # Ok::<(), plimsoll_sampler::SamplerError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct GroupSteps<R> {
    groups: Groups,
    rule: GroupRule<R>,
    steps: StepPlanner<GroupRule<R>, 2>,
}

impl Groups {
    /// Divides epochs into optimizer steps in which each group comes whole.
    ///
    /// `most_samples` counts samples, and the lattice is one of their lengths.
    ///
    /// # Errors
    ///
    /// [`PlanError::GroupAboveStep`] with the first group that counts for more than a step;
    /// [`PlanError::NotForGroups`] when samples are to be cut, or batches to be a multiple; [`PlanError::DropLastOfSteps`];
    /// and those of [`crate::BatchPlanner::try_new`].
    pub fn steps<R: CapacityRule<1> + Clone>(
        &self,
        rule: R,
        config: PlanConfig<1>,
        size: StepSize,
    ) -> Result<GroupSteps<R>, PlanError> {
        self.check_step(size)?;
        let rule = GroupRule::new(rule, config.most_samples, true);
        let planner = self.planner_of(rule.clone(), of_groups(config)?).map_err(|error| self.of_sample(error))?;
        let steps = StepPlanner::with_groups(&planner, Some(self.clone()), size)?;
        Ok(GroupSteps { groups: self.clone(), rule, steps })
    }

    /// Names a sample that does not fit even alone, where an error names its group, by the length on the one axis that it has.
    fn of_sample(&self, error: PlanError) -> PlanError {
        let PlanError::Oversize { id, axis: 1, length, limit } = error else { return error };
        let group = u32::try_from(id).unwrap_or(u32::MAX);
        let is_longest = |sample: &&u32| self.index().lengths(**sample) == [length];
        let sample = self.members(group).iter().find(is_longest).copied().unwrap_or(group);
        PlanError::Oversize { id: sample.into(), axis: 0, length, limit }
    }

    /// Refuses a group that is more than a step.
    fn check_step(&self, size: StepSize) -> Result<(), PlanError> {
        let (most, unit) = match size {
            StepSize::Samples(n) => (n.into(), "samples"),
            StepSize::Positions(n) => (n, "positions"),
            StepSize::Batch => return Ok(()),
        };
        let group = (0..narrow(self.len())).find(|group| most < self.weight(size, *group));
        let above =
            |group| PlanError::GroupAboveStep { group: self.name(group), weight: self.weight(size, group), unit, most };
        group.map_or(Ok(()), |group| Err(above(group)))
    }
}

impl<R: CapacityRule<1> + Clone> GroupSteps<R> {
    /// Goes on where a position was taken with these groups, and with this rule and configuration.
    ///
    /// # Errors
    ///
    /// Those of [`Groups::steps`] and [`StepPlanner::resume`].
    pub fn resume(
        groups: &Groups,
        (rule, config): (R, PlanConfig<1>),
        size: StepSize,
        position: &StepPosition,
    ) -> Result<Self, PositionError> {
        let mut steps = groups.steps(rule.clone(), config, size)?;
        steps.go_back(rule, position)?;
        Ok(steps)
    }

    /// The groups.
    pub const fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Ends a step before it has more padded positions, as [`StepPlanner::with_room`] does.
    #[must_use]
    pub fn with_room(self, padded: u64) -> Self {
        Self { steps: self.steps.with_room(padded), ..self }
    }

    /// Takes the next step, as [`StepPlanner::next_step`] does; its batches have samples.
    pub fn next_step(&mut self) -> PlannedStep {
        let PlannedStep { epoch, span, batches, ends_epoch } = self.steps.next_step();
        let mut batches: Vec<_> = batches.into_iter().flat_map(|batch| self.divided(batch)).collect();
        batches.sort_by_key(|batch| Reverse(batch.padded()));
        PlannedStep { epoch, span, batches, ends_epoch }
    }

    /// Where the next step begins.
    pub fn position(&self) -> StepPosition {
        self.steps.position()
    }

    /// Goes back to a position that was taken under a rule, which may be another one than that of now.
    ///
    /// # Errors
    ///
    /// Those of [`StepPlanner::go_back`]; the steps then go on as before.
    pub fn go_back(&mut self, rule: R, position: &StepPosition) -> Result<(), PositionError> {
        let rule = self.rule.with(rule);
        self.steps.go_back(rule.clone(), position)?;
        self.rule = rule;
        Ok(())
    }

    /// Follows another capacity rule from the next step on.
    ///
    /// # Errors
    ///
    /// Those of [`StepPlanner::change`]; the steps then go on as before.
    pub fn change(&mut self, rule: R) -> Result<(), PositionError> {
        let rule = self.rule.with(rule);
        self.steps.change(rule.clone())?;
        self.rule = rule;
        Ok(())
    }

    /// Measures how well the epoch under way mixes with the next; mates are groups that share a batch.
    pub fn mixing(&self) -> Mixing {
        self.steps.mixing()
    }

    /// The samples of a batch of groups, or of one group that does not fit, in as few batches as do, of about as many.
    fn divided(&self, StepBatch { ids, cell }: StepBatch<2>) -> Vec<StepBatch> {
        let OwnedBatch { ids, cell } = self.groups.samples(&OwnedBatch { ids, cell });
        let most = self.rule.samples(cell[0]).max(1) as usize;
        let n_batches = ids.len().div_ceil(most);
        let start = |at: usize| at * ids.len() / n_batches;
        (0..n_batches).map(|at| StepBatch { ids: ids[start(at)..start(at + 1)].to_vec(), cell }).collect()
    }
}
