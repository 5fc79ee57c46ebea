//! Steps out of packed rows.

use plimsoll_sampler::{
    PackConfig, PackLoad, PackPlanner, PackReport, PackStepPosition, PackSteps, PackedStep, Piece, SampleIndex,
    StepSize,
};
use serde::{Deserialize, Serialize};

use super::padded::PlannedDraw;
use super::{LoaderConfig, LoaderError};
use crate::source::{Draw, Part};

/// Where the next step of packed rows begins, and how many of them a micro-batch may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackedPosition {
    /// In the steps.
    pub steps: PackStepPosition,
    /// What they are made for.
    pub wanted: Vec<u32>,
}

/// An endless sequence of steps of packed rows, which do not depend on how many of them are in a micro-batch unless a step is
/// one.
pub(super) struct Packed {
    planner: PackPlanner,
    size: StepSize,
    /// The most rows of a step: a buffer has room for them.
    most_rows: u32,
    /// The most rows of a micro-batch, whatever the memory holds.
    most: u32,
    /// The least micro-batches of a step that has as many rows.
    least: usize,
    steps: PackSteps,
    wanted: Vec<u32>,
}

impl Packed {
    pub(super) fn try_new(
        (index, row_len): (SampleIndex<1>, u32),
        config: &LoaderConfig,
        sizes: &[u32],
        position: Option<PackedPosition>,
    ) -> Result<Self, LoaderError> {
        let rows = PackConfig { seed: config.seed, window: config.window, ..PackConfig::new(row_len) };
        let planner = PackPlanner::try_mixed(index, rows, &config.tasks)?;
        let (size, most_rows) = (config.step_size(), config.rows(row_len));
        let mut packed = Self {
            steps: PackSteps::try_new(&planner, size)?.of_at_most(most_rows),
            planner,
            size,
            most_rows,
            most: config.batch_of(row_len.into()),
            least: config.batches_per_step.max(1) as usize,
            wanted: sizes.to_vec(),
        };
        if let Some(position) = position {
            packed.go_back(&position)?;
        }
        Ok(packed)
    }

    pub(super) fn index(&self) -> &SampleIndex<1> {
        self.planner.index()
    }

    /// Measures the rows of the epoch under way: two epochs are packed for it.
    pub(super) fn report(&self) -> PackReport {
        self.steps.report()
    }

    pub(super) fn wanted(&self) -> &[u32] {
        &self.wanted
    }

    /// Returns the next step.
    pub(super) fn next(&mut self) -> Result<PlannedDraw, LoaderError> {
        // A policy allows one row at least.
        let most = self.wanted.first().map_or(1, |it| self.most.min(*it).max(1));
        let is_one_batch = self.size == StepSize::Batch;
        let fits = |load: PackLoad| !is_one_batch || load.rows <= most;
        let step = self.steps.next_step(&fits)?;
        let batches = step.divided(most, if is_one_batch { 1 } else { self.least });
        let row_len = self.planner.config().row_len;
        let parts = batches.iter().map(|rows| part(row_len, rows)).collect();
        let PackedStep { epoch, span, ends_epoch, .. } = step;
        Ok(PlannedDraw { draw: Draw { epoch, parts }, span, ends_epoch })
    }

    pub(super) fn position(&self) -> PackedPosition {
        PackedPosition { steps: self.steps.position(), wanted: self.wanted.clone() }
    }

    pub(super) fn go_back(&mut self, PackedPosition { steps, wanted }: &PackedPosition) -> Result<(), LoaderError> {
        self.steps = PackSteps::resume(&self.planner, self.size, steps)?.of_at_most(self.most_rows);
        self.wanted.clone_from(wanted);
        Ok(())
    }

    pub(super) fn change(&mut self, sizes: &[u32]) {
        self.wanted = sizes.to_vec();
    }
}

/// Rows whose pieces are whole samples.
fn part(row_len: u32, rows: &[&[Piece]]) -> Part {
    let size = |row: &&[Piece]| u32::try_from(row.len()).unwrap_or(u32::MAX);
    Part {
        ids: rows.iter().copied().flatten().map(|piece| piece.id.into()).collect(),
        extent: row_len.into(),
        packed: Some(rows.iter().map(size).collect()),
    }
}
