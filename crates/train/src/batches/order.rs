//! The steps of an epoch, on however many axes they are planned.

use std::ops::Range;

use plimsoll_sampler::{BatchPlanner, PlanConfig, PlannedStep, SampleIndex, StepPlanner, StepPosition, StepSize};

use super::error::BatchesError;
use super::group::{Group, StepOf};

/// The steps of epoch after epoch.
pub(super) trait Order: Send + Sync {
    /// Takes the next step.
    fn next_step(&mut self) -> Next;

    /// Where the next step begins.
    fn position(&self) -> StepPosition;

    /// Goes to the first step of an epoch.
    fn start(&mut self, epoch: u64);

    /// Goes back to a position, or stays where it is.
    fn go_back(&mut self, position: &StepPosition) -> Result<(), BatchesError>;

    /// Another one that stands where this one does.
    fn copied(&self) -> Box<dyn Order>;
}

impl Clone for Box<dyn Order> {
    fn clone(&self) -> Self {
        self.copied()
    }
}

/// The samples of a step, by their places.
pub(super) struct Next {
    pub(super) epoch: u64,
    /// What the epoch has taken before it, and with it.
    pub(super) span: Range<u64>,
    pub(super) ids: Vec<usize>,
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
        let config = PlanConfig {
            seed: plan.seed,
            window: plan.window,
            multiple_of: plan.multiple_of,
            drop_last,
            tasks: plan.tasks.clone(),
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
        let ids = batches.iter().flat_map(|it| &it.ids).filter_map(|id| usize::try_from(*id).ok()).collect();
        Next { epoch, span, ids, ends_epoch }
    }

    fn position(&self) -> StepPosition {
        self.steps.position()
    }

    fn start(&mut self, epoch: u64) {
        self.steps.start(epoch);
    }

    fn go_back(&mut self, position: &StepPosition) -> Result<(), BatchesError> {
        Ok(self.steps.go_back(self.group, position)?)
    }

    fn copied(&self) -> Box<dyn Order> {
        Box::new(self.clone())
    }
}
