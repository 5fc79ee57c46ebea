//! Steps of samples that are padded to cells, along however many axes.

use std::ops::Range;
use std::sync::Arc;

use plimsoll_sampler::{
    BatchPlanner, CapacityRule, GroupSteps, Groups, Lattice, Mixing, PlanConfig, PlanError, PlannedStep, PositionError,
    SampleIndex, SamplerError, StepPlanner, StepPosition,
};
use plimsoll_types::Extent;

use super::LoaderConfig;
use crate::index::{Index, extent};
use crate::source::Draw;

/// How many samples of each cell may run at once: what the memory has room for, and not more than a step takes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BatchSizes<const AXES: usize> {
    edges: [Arc<[u32]>; AXES],
    /// Of every point of the lattice, the first axis being the outermost.
    sizes: Vec<u32>,
}

impl<const AXES: usize> BatchSizes<AXES> {
    /// Takes as much as a step allows, whatever the memory has room for.
    pub(super) fn most(config: &LoaderConfig) -> Self {
        Self::new(config, &vec![u32::MAX; config.cells.len()])
    }

    /// Takes a size for each cell; a point of the lattice that is none has the largest size of the cells that cover it.
    pub(super) fn new(config: &LoaderConfig, sizes: &[u32]) -> Self {
        let of_cell = |(cell, size): (&Extent, &u32)| (*cell, config.batch_of(*cell).min(*size));
        let cells: Vec<_> = config.cells.iter().zip(sizes).map(of_cell).collect();
        let edges: [Arc<[u32]>; AXES] = std::array::from_fn(|axis| config.cells.edges(axis).into());
        let own = |point: Extent| cells.iter().find(|it| it.0 == point).map(|it| it.1);
        let most = |point: Extent| cells.iter().filter(|(cell, _)| cell.covers(point)).map(|it| it.1).max();
        let size = |point| own(point).or_else(|| most(point)).unwrap_or(0);
        let sizes = points(&edges).map(|point| size(extent(point))).collect();
        Self { edges, sizes }
    }
}

/// Returns the points of a lattice, the first axis being the outermost.
fn points<const AXES: usize>(edges: &[Arc<[u32]>; AXES]) -> impl Iterator<Item = [u32; AXES]> {
    (0..edges.iter().map(|it| it.len()).product()).map(move |mut at: usize| {
        let mut point = [0; AXES];
        for (place, edges) in point.iter_mut().zip(edges).rev() {
            (*place, at) = (edges[at % edges.len()], at / edges.len());
        }
        point
    })
}

impl<const AXES: usize> CapacityRule<AXES> for BatchSizes<AXES> {
    fn capacity(&self, padded: [u32; AXES]) -> u32 {
        let at = self.edges.iter().zip(padded).try_fold(0, |at, (edges, padded)| {
            let own = edges.partition_point(|edge| *edge < padded);
            (own < edges.len()).then_some(at * edges.len() + own)
        });
        at.and_then(|at| self.sizes.get(at).copied()).unwrap_or(0)
    }
}

/// An endless sequence of steps of padded samples, whatever their axes.
pub(super) trait PaddedSteps: Send {
    /// Returns the next step.
    fn next(&mut self) -> PlannedDraw;

    /// Returns where the next step begins.
    fn position(&self) -> StepPosition;

    /// Goes to a position that was taken with these sizes.
    fn go_back(&mut self, config: &LoaderConfig, sizes: &[u32], position: &StepPosition) -> Result<(), PositionError>;

    /// Measures how well the epoch under way mixes with the next, both as they are planned now.
    fn mixing(&self) -> Mixing;

    /// Follows other sizes from the next step on.
    fn change(&mut self, config: &LoaderConfig, sizes: &[u32]) -> Result<(), PositionError>;
}

impl<const AXES: usize> PaddedSteps for StepPlanner<BatchSizes<AXES>, AXES> {
    fn next(&mut self) -> PlannedDraw {
        drawn(self.next_step())
    }

    fn position(&self) -> StepPosition {
        Self::position(self)
    }

    fn go_back(&mut self, config: &LoaderConfig, sizes: &[u32], position: &StepPosition) -> Result<(), PositionError> {
        Self::go_back(self, BatchSizes::new(config, sizes), position)
    }

    fn mixing(&self) -> Mixing {
        Self::mixing(self)
    }

    fn change(&mut self, config: &LoaderConfig, sizes: &[u32]) -> Result<(), PositionError> {
        Self::change(self, BatchSizes::new(config, sizes))
    }
}

impl PaddedSteps for GroupSteps<BatchSizes<1>> {
    fn next(&mut self) -> PlannedDraw {
        drawn(self.next_step())
    }

    fn position(&self) -> StepPosition {
        Self::position(self)
    }

    fn go_back(&mut self, config: &LoaderConfig, sizes: &[u32], position: &StepPosition) -> Result<(), PositionError> {
        Self::go_back(self, BatchSizes::new(config, sizes), position)
    }

    fn mixing(&self) -> Mixing {
        Self::mixing(self)
    }

    fn change(&mut self, config: &LoaderConfig, sizes: &[u32]) -> Result<(), PositionError> {
        Self::change(self, BatchSizes::new(config, sizes))
    }
}

/// Stands before the first step of samples in batches of these sizes; the groups stay together, if there are any.
pub(super) fn padded_steps(
    (index, groups): (&Index, Option<&Groups>),
    config: &LoaderConfig,
    sizes: &[u32],
) -> Result<Box<dyn PaddedSteps>, SamplerError> {
    if let Some(groups) = groups {
        let steps = groups.steps(BatchSizes::new(config, sizes), plan(config)?, config.step_size())?;
        return Ok(Box::new(steps.with_room(config.largest_of_groups(groups).positions())));
    }
    match index {
        Index::One(index) => steps(index, config, sizes),
        Index::Two(index) => steps(index, config, sizes),
        Index::Three(index) => steps(index, config, sizes),
    }
}

fn steps<const AXES: usize>(
    index: &SampleIndex<AXES>,
    config: &LoaderConfig,
    sizes: &[u32],
) -> Result<Box<dyn PaddedSteps>, SamplerError> {
    // A multiple has to have room in a step; what the memory has room for changes.
    let planner = BatchPlanner::try_new(index.clone(), BatchSizes::most(config), plan(config)?)?;
    let steps = StepPlanner::try_new(&planner, config.step_size())?;
    let mut steps = steps.with_room(config.largest_padded().positions());
    steps.change(BatchSizes::new(config, sizes))?;
    Ok(Box::new(steps))
}

/// The samples of a step, and where in its epoch it is.
pub(super) struct PlannedDraw {
    pub(super) draw: Draw,
    /// What the epoch has taken before it, and with it.
    pub(super) span: Range<u64>,
    pub(super) ends_epoch: bool,
}

pub(super) fn drawn<const AXES: usize>(step: PlannedStep<AXES>) -> PlannedDraw {
    let PlannedStep { epoch, span, batches, ends_epoch } = step;
    PlannedDraw { draw: Draw::of_batches(epoch, batches), span, ends_epoch }
}

/// Returns how batches are planned.
pub(super) fn plan<const AXES: usize>(config: &LoaderConfig) -> Result<PlanConfig<AXES>, PlanError> {
    Ok(PlanConfig {
        seed: config.seed,
        window: config.window,
        most_mates_kept: config.most_mates_kept,
        multiple_of: config.multiple_of,
        objective: config.objective,
        lattice: Lattice::try_new(std::array::from_fn(|axis| config.cells.edges(axis)))?,
        tasks: config.tasks.clone(),
        ..PlanConfig::default()
    })
}

#[cfg(test)]
mod tests {
    use plimsoll_types::Bytes;

    use super::*;

    #[test]
    fn a_point_between_cells_has_the_size_of_one_that_holds_it() {
        let cells = [[1, 8], [4, 2], [4, 8], [6, 8]].iter().map(|it| Extent::try_new(it).unwrap()).collect();
        let config = LoaderConfig { cells, ..LoaderConfig::cut(0, 30, 6, Bytes::mib(1)) };
        let sizes = BatchSizes::<2>::new(&config, &[40, 12, 7, 5]);
        let capacity = |padded| sizes.capacity(padded);
        assert_eq!([[1, 8], [4, 2], [4, 8], [6, 8]].map(capacity), [30, 12, 7, 5], "no more than a step has");
        assert_eq!([[1, 2], [6, 2], [3, 3]].map(capacity), [30, 5, 7]);
        assert_eq!([[7, 1], [1, 9]].map(capacity), [0, 0]);
    }
}
