//! Optimizer steps out of a stream.

use plimsoll_types::Bytes;
use serde::{Deserialize, Serialize};

use super::step::{PlannedStep, StepSize};
use super::step_queue::{Piece, StepQueue};
use super::stream::StreamPlanner;
use super::stream_position::StreamPosition;
use super::streamed::{Planned, Pushed, StreamSample, StreamStats};
use crate::{CapacityRule, PlanError, StreamError};

/// Divides a stream into optimizer steps, as [`crate::StepPlanner`] does with epochs.
///
/// Samples are pushed, and steps taken when they are whole.
/// The batches of a step that is not whole yet are held besides the buffer, so that a step may be larger than it.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamSteps<R, const AXES: usize = 1> {
    planner: StreamPlanner<R, AXES>,
    queue: StepQueue<StreamSample<AXES>, AXES>,
    /// How often no step was whole, since the last one that was.
    times_empty: u64,
    most_samples: u64,
    most_bytes: Bytes,
    starved: bool,
}

/// Where the step after the last taken one begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamStepPosition<const AXES: usize = 1> {
    /// In the stream, with the batches that no step has taken, or not all of.
    pub stream: StreamPosition<AXES>,
    /// What the epoch's steps have taken: positions where they are counted, or else samples.
    pub taken: u64,
}

impl<R: CapacityRule<AXES> + Clone, const AXES: usize> StreamSteps<R, AXES> {
    /// Starts with what the planner holds.
    ///
    /// # Errors
    ///
    /// [`PlanError::BelowOne`] when a step takes nothing, [`PlanError::DropLastOfSteps`].
    pub fn try_new(planner: StreamPlanner<R, AXES>, size: StepSize) -> Result<Self, StreamError> {
        size.check()?;
        if planner.config().drop_last && size != StepSize::Batch {
            return Err(PlanError::DropLastOfSteps.into());
        }
        let mut queue = StepQueue::new(size);
        queue.start(planner.epoch, 0);
        Ok(Self { planner, queue, times_empty: 0, most_samples: 0, most_bytes: Bytes::ZERO, starved: false })
    }

    /// Ends a step before it has more padded positions, as [`crate::StepPlanner::with_room`] does.
    #[must_use]
    pub fn with_room(mut self, padded: u64) -> Self {
        self.queue.room = padded;
        self
    }

    /// Goes on where a position was taken, with a planner that holds nothing, as [`StreamPlanner::resume`] does: the steps
    /// are those of a stream that was not interrupted.
    ///
    /// # Errors
    ///
    /// Those of [`StreamSteps::try_new`] and [`StreamPlanner::resume`].
    pub fn resume(
        planner: StreamPlanner<R, AXES>,
        size: StepSize,
        position: &StreamStepPosition<AXES>,
    ) -> Result<Self, StreamError> {
        let mut steps = Self::try_new(planner.resume(&position.stream)?, size)?;
        steps.queue.taken = position.taken;
        Ok(steps)
    }

    /// Takes the next sample of the stream, unless there is no room, or steps of an epoch that has ended are left; then
    /// a step is whole.
    ///
    /// # Errors
    ///
    /// Those of [`StreamPlanner::push`].
    pub fn push(&mut self, sample: StreamSample<AXES>) -> Result<Pushed, StreamError> {
        if self.planner.finished && self.held().0 > 0 {
            return Ok(Pushed::Full);
        }
        self.fill();
        let pushed = self.planner.push(sample)?;
        if self.queue.epoch != self.planner.epoch {
            self.queue.start(self.planner.epoch, 0);
        }
        let (n_held, held) = self.held();
        self.most_samples = self.most_samples.max(n_held as u64);
        self.most_bytes = self.most_bytes.max(held);
        Ok(pushed)
    }

    /// Takes the next step; `None` when none is whole, or before the end of the epoch might be the last.
    pub fn next_step(&mut self) -> Option<PlannedStep<AXES>> {
        self.fill();
        let whole = self.queue.holds_more_than_a_step();
        if !whole && (!self.planner.finished || self.queue.pieces.is_empty()) {
            self.times_empty += u64::from(!self.planner.finished && !self.starved);
            self.starved = true;
            return None;
        }
        self.starved = false;
        let mut step = self.queue.take_step();
        step.ends_epoch = self.queue.pieces.is_empty();
        Some(step)
    }

    /// Ends the epoch: its last step is whole as it is.
    pub fn finish(&mut self) {
        self.planner.finish();
    }

    /// Follows another capacity rule from the next step on, as [`StreamPlanner::change`] does.
    ///
    /// # Errors
    ///
    /// Those of [`StreamPlanner::change`]; the steps then go on as before.
    pub fn change(&mut self, rule: R) -> Result<(), StreamError> {
        let mut changed = self.clone();
        while let Some(Piece { samples, cell }) = changed.queue.pieces.pop_back() {
            changed.planner.put_back(Planned { samples, cell });
        }
        changed.queue.start(self.queue.epoch, self.queue.taken);
        changed.planner.change(rule)?;
        *self = changed;
        Ok(())
    }

    /// Where the next step begins.
    pub fn position(&self) -> StreamStepPosition<AXES> {
        let pieces = self.queue.pieces.iter();
        let taken = pieces.map(|Piece { samples, cell }| (*cell, samples.iter().map(|sample| sample.id).collect()));
        let mut stream = self.planner.position_with(taken);
        if self.has_ended() {
            stream.begin_next();
            return StreamStepPosition { stream, taken: 0 };
        }
        StreamStepPosition { stream, taken: self.queue.taken }
    }

    /// Goes on without a sample of a position, as [`StreamPlanner::leave_out`] does.
    ///
    /// # Errors
    ///
    /// Those of [`StreamPlanner::leave_out`].
    pub fn leave_out(&mut self, id: u64) -> Result<bool, StreamError> {
        self.planner.leave_out(id)
    }

    /// The samples of a position that have not come yet, in growing order.
    pub fn missing(&self) -> impl Iterator<Item = u64> {
        self.planner.missing()
    }

    /// The epoch of the next step.
    pub fn epoch(&self) -> u64 {
        self.queue.epoch + u64::from(self.has_ended())
    }

    /// What happened so far; an empty buffer is counted once until a step is whole.
    pub const fn stats(&self) -> StreamStats {
        let Self { times_empty, most_samples, most_bytes, .. } = *self;
        StreamStats { times_empty, most_samples, most_bytes, ..self.planner.stats() }
    }

    /// The samples that were pushed and are in no step that was taken.
    pub fn pending(&self) -> impl Iterator<Item = u64> {
        self.of_queue().map(|sample| sample.id).chain(self.planner.pending())
    }

    /// Samples that are held, and their host memory.
    pub fn held(&self) -> (usize, Bytes) {
        let (n_held, held) = self.planner.held();
        let bytes: Bytes = self.of_queue().map(|sample| sample.bytes).sum();
        (n_held + self.of_queue().count(), held.saturating_add(bytes))
    }

    /// Whether the epoch has ended, and its last step is taken.
    fn has_ended(&self) -> bool {
        self.planner.finished && self.held().0 == 0
    }

    /// Takes batches until there are enough for a step.
    fn fill(&mut self) {
        while !self.queue.holds_more_than_a_step()
            && let Some(Planned { samples, cell, .. }) = self.planner.take_ready()
        {
            self.queue.push(Piece { samples, cell });
        }
    }

    fn of_queue(&self) -> impl Iterator<Item = &StreamSample<AXES>> {
        self.queue.pieces.iter().flat_map(|piece| &piece.samples)
    }
}
