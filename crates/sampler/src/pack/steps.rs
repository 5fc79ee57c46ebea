//! Optimizer steps of packed rows, epoch after epoch.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::epoch::PackedEpoch;
use super::load::PackRule;
use super::piece::Piece;
use super::planner::PackPlanner;
use super::position::PackPosition;
use super::report::PackReport;
use super::rows::PackedRows;
use crate::{PackError, PositionError, StepSize};

/// Divides each epoch into optimizer steps, and never ends.
///
/// A step ends with a row, never within one: a row that is cut leaves two that are partly empty.
/// So a step has one row at least, and what it has beyond its size, the next ones lack.
/// A piece counts as a sample when it is the first of its sample.
#[derive(Clone, Debug, PartialEq)]
pub struct PackSteps {
    planner: PackPlanner,
    epoch: PackedEpoch,
    size: StepSize,
    /// The most rows of a step.
    most_rows: u32,
    taken: u64,
}

/// The rows of one optimizer step, all of one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedStep<I = u32> {
    /// The epoch.
    pub epoch: u64,
    /// What the epoch has taken before this step, and with it: positions where they are counted, or else samples.
    pub span: Range<u64>,
    /// The micro-batches.
    pub batches: Vec<PackedRows<I>>,
    /// Whether this is the last step of the epoch.
    pub ends_epoch: bool,
}

impl<I: Copy> PackedStep<I> {
    /// Divides all rows into batches of `most` rows at most, and into `least` batches at least where there are as many rows.
    ///
    /// Each has as many rows, or one more: who runs some of them at once waits for none.
    pub fn divided(&self, most: u32, least: usize) -> Vec<Vec<&[Piece<I>]>> {
        let rows: Vec<_> = self.batches.iter().flat_map(PackedRows::iter).collect();
        let n_batches = rows.len().div_ceil(most.max(1) as usize).max(least.min(rows.len())).max(1);
        let share = |at: usize| at * rows.len() / n_batches;
        (0..n_batches).map(|at| rows[share(at)..share(at + 1)].to_vec()).collect()
    }
}

/// Where the next step begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackStepPosition {
    rows: PackPosition,
    taken: u64,
}

impl PackStepPosition {
    /// The epoch of the next step.
    pub const fn epoch(&self) -> u64 {
        self.rows.epoch
    }
}

impl PackSteps {
    /// Stands before the first step of epoch 0.
    ///
    /// # Errors
    ///
    /// [`crate::PlanError::BelowOne`] when a step takes nothing.
    pub fn try_new(planner: &PackPlanner, size: StepSize) -> Result<Self, PackError> {
        size.check()?;
        Ok(Self { planner: planner.clone(), epoch: planner.epoch(0), size, most_rows: u32::MAX, taken: 0 })
    }

    /// Ends a step that has so many rows, whatever they hold, so that a buffer of a fixed size has room for any.
    #[must_use]
    pub fn of_at_most(self, rows: u32) -> Self {
        Self { most_rows: rows.max(1), ..self }
    }

    /// Goes on where a position was taken, with a planner that is equal to the one of that time.
    ///
    /// # Errors
    ///
    /// Those of [`PackSteps::try_new`] and [`PackPlanner::resume`].
    pub fn resume(planner: &PackPlanner, size: StepSize, position: &PackStepPosition) -> Result<Self, PositionError> {
        let steps = Self::try_new(planner, size)?;
        Ok(Self { epoch: planner.resume(&position.rows)?, taken: position.taken, ..steps })
    }

    /// Goes to the first step of an epoch.
    pub fn start(&mut self, epoch: u64) {
        (self.epoch, self.taken) = (self.planner.epoch(epoch), 0);
    }

    /// Takes the next step, in micro-batches that fit.
    ///
    /// # Errors
    ///
    /// [`PackError::RowLoad`] when a row does not fit even alone; the steps then stay where they are.
    pub fn next_step(&mut self, rule: &impl PackRule) -> Result<PackedStep, PackError> {
        let mut ahead = self.epoch.clone();
        let (start, mut taken, mut left, mut batches) = (self.taken, self.taken, self.most_rows, Vec::new());
        let end = self.size.end(start);
        let is_whole = |taken, left| left == 0 || end.is_some_and(|end| end <= taken);
        while !is_whole(taken, left)
            && let Some(batch) = ahead.batch_while(rule, |row| {
                let is_wanted = !is_whole(taken, left);
                (taken, left) = if is_wanted { (taken + weight(self.size, row), left - 1) } else { (taken, left) };
                is_wanted
            })?
        {
            batches.push(batch);
            if end.is_none() {
                break;
            }
        }
        let step =
            PackedStep { epoch: ahead.number(), span: start..taken, batches, ends_epoch: ahead.peek().is_none() };
        (self.epoch, self.taken) =
            if step.ends_epoch { (self.planner.epoch(step.epoch + 1), 0) } else { (ahead, taken) };
        Ok(step)
    }

    /// Measures the rows of the epoch under way, by themselves and against those of the next: both are packed for it.
    pub fn report(&self) -> PackReport {
        let epoch = self.epoch.number();
        self.planner.report(epoch, &self.planner.plan_epoch(epoch))
    }

    /// Where the next step begins.
    pub fn position(&self) -> PackStepPosition {
        PackStepPosition { rows: self.epoch.position(), taken: self.taken }
    }
}

/// What a row counts for.
pub(super) fn weight<I>(size: StepSize, row: &[Piece<I>]) -> u64 {
    match size {
        StepSize::Positions(_) => row.iter().map(|piece| u64::from(piece.len())).sum(),
        _ => row.iter().filter(|piece| piece.start == 0).count() as u64,
    }
}
