//! A run under way: who does what in it, and the order in which they do it.
//!
//! Each owner has its own fields, which nobody else changes:
//!
//! * [`Journal`] writes and tells, and has the clocks;
//! * [`Training`] is the transaction over model and optimizer, on their device;
//! * [`Feed`] fills steps with samples;
//! * [`Control`] decides about the steps to come, under the memory that it knows of;
//! * [`Validations`] knows how much of a validation is measured;
//! * [`Standing`] says how far the run is, and which of its checkpoints is the best.
//!
//! What now, when a step does not go on, is decided by the [`Guard`](plimsoll_guard::Guard) of the transaction alone.

mod control;
mod death;
mod feed;
mod go_back;
mod journal;
mod one_step;
mod ranks;
mod recover;
mod room;
mod save;
mod shares;
mod standing;
mod start;
mod tasks;
mod test;
mod training;
mod under_way;
mod unfit;
mod validate;
mod validations;

use std::path::PathBuf;

use plimsoll_sampler::Worked;
use plimsoll_step::StepError;
use plimsoll_types::{Attempt, EndReason, Event, Knobs, Stage, StepFailed};

use self::control::Control;
use self::feed::Feed;
use self::journal::Journal;
use self::shares::Agreed;
use self::standing::Standing;
use self::training::Training;
use self::validations::Validations;
use crate::config::FitConfig;
use crate::error::TrainError;
use crate::job::Job;
use crate::resume::Kept;
use crate::signal::StopFlag;

pub use self::death::Death;
pub use self::unfit::Unfit;

/// How far the seeds of two ranks are apart: odd, and far from what other seeds are apart by.
const RANK_STRIDE: u64 = 0xd1b5_4a32_d192_ed03;

pub(crate) struct Run<'j, 's, J: Job> {
    job: &'j J,
    config: &'j FitConfig,
    /// The settings that it keeps from its first step to its last.
    kept: Kept,
    stop: StopFlag,
    /// The run directory, which the ranks have in common.
    root: PathBuf,
    journal: Journal<'s>,
    training: Training<J::Model>,
    feed: Feed<J::Source>,
    control: Control<'s>,
    validations: Validations,
    standing: Standing,
    /// What the ranks have agreed on for the step under way; nothing where there is one.
    agreed: Option<Agreed>,
    /// What this rank has run since they last agreed.
    worked: Worked,
    /// Why all ranks end, once they do.
    ended: Option<EndReason>,
}

impl<J: Job> Run<'_, '_, J> {
    pub(crate) fn step(&self) -> u64 {
        self.standing.step()
    }

    /// Notices before a step when there is more or less memory than before.
    pub(crate) fn follow_budget(&mut self) -> Result<(), TrainError> {
        match self.control.follow(self.standing.step(), self.training.probe(), &mut self.journal)? {
            Some(event) => self.answer(event),
            None => Ok(()),
        }
    }

    /// Seeds the device anew, so that what is random in a step is the same after a resumption, and another on each rank.
    fn seed(&mut self) {
        let seed = self.config.seed.wrapping_add(u64::from(self.training.team().rank()).wrapping_mul(RANK_STRIDE));
        self.training.seed_step(seed, self.step());
    }

    /// Learns from an event and decides, and logs both the event and the decision.
    fn answer(&mut self, event: Event) -> Result<(), TrainError> {
        let answer = self.control.answer(self.standing.step(), event, &mut self.journal)?;
        if answer.is_exceeded {
            // Pages that something took once would show in every later reading of the same shape.
            self.training.forget_pages();
        }
        Ok(self.journal.log(&answer.events)?)
    }

    /// Answers a failure of the step under way at which nothing but the rung is known.
    fn answer_failure(&mut self, rung: Knobs, stage: Stage) -> Result<(), TrainError> {
        let (step, capacity) = (self.step(), self.control.budget().capacity);
        let resident = self.training.in_use().map_err(|it| self.failed(it))?;
        let attempt = Attempt::new(rung.shape(), resident);
        self.answer(Event::StepFailed(StepFailed { step, rung, attempt, capacity, stage }))
    }

    /// Says of which step an error is.
    fn failed(&self, source: StepError) -> TrainError {
        TrainError::Step { step: self.step(), source }
    }

    /// Writes what led to a failure beside the log.
    ///
    /// # Errors
    ///
    /// [`TrainError::RunDir`] when it cannot be written.
    fn record(&mut self, failure: String) -> Result<(), TrainError> {
        let now = self.training.surroundings(self.standing.step());
        Ok(self.journal.record(failure, self.feed.under_way(), now)?)
    }

    /// Writes down what ends the run, and returns it; that it cannot be written is the lesser evil.
    pub(crate) fn recorded(&mut self, error: TrainError) -> TrainError {
        drop(self.record(error.to_string()));
        error
    }
}
