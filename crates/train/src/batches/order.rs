//! The steps of an epoch, on however many axes they are planned.

use std::ops::Range;

use plimsoll_sampler::{
    BatchPlanner, PackBudget, PackConfig, PackPlanner, PackSteps, Piece, PlanConfig, PlannedStep, SampleIndex,
    StepPlanner, StepSize, TaskMix,
};

use super::error::BatchesError;
use super::group::{Group, StepOf};
use super::position::StepPlace;

/// The steps of epoch after epoch.
pub(super) trait Order: Send + Sync {
    /// Takes the next step.
    fn next_step(&mut self) -> Next;

    /// Where the next step begins.
    fn position(&self) -> StepPlace;

    /// Goes to the first step of an epoch.
    fn start(&mut self, epoch: u64);

    /// Goes back to a position, or stays where it is.
    fn go_back(&mut self, position: &StepPlace) -> Result<(), BatchesError>;

    /// Another one that stands where this one does.
    fn copied(&self) -> Box<dyn Order>;
}

impl Clone for Box<dyn Order> {
    fn clone(&self) -> Self {
        self.copied()
    }
}

/// What is one item of a batch: a sample, or those that lie in one row, by their places.
pub(super) type Unit = Box<[Piece]>;

/// The items of a step.
pub(super) struct Next {
    pub(super) epoch: u64,
    /// What the epoch has taken before it, and with it.
    pub(super) span: Range<u64>,
    pub(super) units: Vec<Unit>,
    pub(super) ends_epoch: bool,
}

/// Steps of samples that are padded along these axes.
#[derive(Clone)]
struct Padded<const AXES: usize> {
    steps: StepPlanner<Group<AXES>, AXES>,
    group: Group<AXES>,
}

/// How samples are planned.
#[derive(Clone, Copy)]
pub(super) struct Planning<'a> {
    pub(super) step: StepOf,
    /// The most that a group may be padded to on each axis.
    pub(super) most: Option<&'a [u64]>,
    pub(super) plan: &'a PlanConfig<1>,
}

impl Planning<'_> {
    /// Plans samples; says how many an epoch has, in which those of small tasks may come again.
    pub(super) fn order<const AXES: usize>(
        self,
        index: SampleIndex<AXES>,
    ) -> Result<(Box<dyn Order>, usize), BatchesError> {
        let Self { step, most, plan } = self;
        let most = std::array::from_fn(|axis| most.and_then(|most| most.get(axis)).copied().unwrap_or(u64::MAX));
        let group = Group::of(step, most);
        // A step of several batches is told to be whole by what it takes.
        let drop_last = plan.drop_last && step.size() == StepSize::Batch;
        let &PlanConfig { seed, window, most_mates_kept, multiple_of, objective, ref tasks, .. } = plan;
        let config = PlanConfig {
            seed,
            window,
            most_mates_kept,
            multiple_of,
            objective,
            drop_last,
            tasks: tasks.clone(),
            ..PlanConfig::default()
        };
        let planner = BatchPlanner::try_new(index, group, config)?;
        let steps = StepPlanner::try_new(&planner, step.size())?;
        Ok((Box::new(Padded { steps, group }), planner.n_planned()))
    }
}

impl<const AXES: usize> Order for Padded<AXES> {
    fn next_step(&mut self) -> Next {
        let PlannedStep { epoch, span, batches, ends_epoch } = self.steps.next_step();
        let whole = |id: &u64| u32::try_from(*id).ok().map(|id| [Piece { id, start: 0, end: 1 }].into());
        let units = batches.iter().flat_map(|it| &it.ids).filter_map(whole).collect();
        Next { epoch, span, units, ends_epoch }
    }

    fn position(&self) -> StepPlace {
        StepPlace::Padded(self.steps.position())
    }

    fn start(&mut self, epoch: u64) {
        self.steps.start(epoch);
    }

    fn go_back(&mut self, position: &StepPlace) -> Result<(), BatchesError> {
        let StepPlace::Padded(position) = position else { return Err(BatchesError::OtherLayout { is_packed: true }) };
        Ok(self.steps.go_back(self.group, position)?)
    }

    fn copied(&self) -> Box<dyn Order> {
        Box::new(self.clone())
    }
}

/// Steps of packed rows.
#[derive(Clone)]
struct Packed {
    planner: PackPlanner,
    steps: PackSteps,
    size: StepSize,
}

/// All rows of a step fit: whoever makes batches of them is told what does.
const ANY: PackBudget = PackBudget { rows: u32::MAX, squares: u64::MAX };

/// Packs samples; says about how many rows an epoch has.
pub(super) fn packed(
    index: SampleIndex<1>,
    size: StepSize,
    config: PackConfig,
    mix: &TaskMix,
) -> Result<(Box<dyn Order>, usize), BatchesError> {
    let planner = PackPlanner::try_mixed(index, config, mix)?;
    let (n_rows, steps) = (planner.plan_epoch(0).len(), PackSteps::try_new(&planner, size)?);
    Ok((Box::new(Packed { planner, steps, size }), n_rows))
}

impl Order for Packed {
    fn next_step(&mut self) -> Next {
        let step = self.steps.next_step(&ANY);
        let step = step.unwrap_or_else(|error| unreachable!("every row fits: {error}"));
        let units = step.batches.iter().flat_map(|rows| rows.iter().map(Into::into)).collect();
        Next { epoch: step.epoch, span: step.span, units, ends_epoch: step.ends_epoch }
    }

    fn position(&self) -> StepPlace {
        StepPlace::Packed(self.steps.position())
    }

    fn start(&mut self, epoch: u64) {
        self.steps.start(epoch);
    }

    fn go_back(&mut self, position: &StepPlace) -> Result<(), BatchesError> {
        let StepPlace::Packed(position) = position else { return Err(BatchesError::OtherLayout { is_packed: false }) };
        self.steps = PackSteps::resume(&self.planner, self.size, position)?;
        Ok(())
    }

    fn copied(&self) -> Box<dyn Order> {
        Box::new(self.clone())
    }
}
