//! What a run does between its steps, and at its end: it validates, saves and tests.

use std::time::Instant;

use plimsoll_types::{CheckpointSaved, EndReason, Event, ItemsMeasured, RunEnded};

use super::Run;
use crate::checkpoint::{Best, RunState, name, note_best};
use crate::config::FitConfig;
use crate::error::TrainError;
use crate::fit::{Doing, Outcome};
use crate::job::{Job, Metric};

impl<J: Job> Run<'_, '_, J> {
    /// Validates and saves when it is time to.
    pub(crate) fn between_steps(&mut self) -> Result<(), TrainError> {
        self.journal.check_checkpoint()?;
        // Saved first: a validation that does not fit must not cost the steps before it.
        if self.is_saved_now() && !self.standing.is_saved() {
            self.save()?;
        }
        // Where saving found lost weights, the run went back and has validated there.
        if self.is_due(self.config.validate_every) && !self.validations.is_done() {
            self.validate()?;
        }
        Ok(())
    }

    /// Whether there are steps to come.
    pub(crate) fn is_under_way(&self) -> bool {
        self.step() < self.config.n_steps && self.reached().is_none()
    }

    /// Returns the end that the run has reached by itself, if any: not while a validation that a signal broke off is still to
    /// be done.
    pub(super) fn reached(&self) -> Option<EndReason> {
        let FitConfig { n_steps, validate_every, patience, .. } = *self.config;
        if self.is_due(validate_every) && !self.validations.is_done() {
            None
        } else if n_steps <= self.step() {
            Some(EndReason::Completed)
        } else {
            let waited = self.standing.since_best()? / validate_every;
            patience.filter(|it| it.get() <= waited).map(|_| EndReason::StoppedEarly)
        }
    }

    /// Saves what is not saved yet, and logs the end.
    pub(crate) fn end(&mut self) -> Result<Outcome, TrainError> {
        let reason = self.end_reason();
        if !self.standing.is_saved() {
            self.save()?;
        }
        if self.is_first() {
            self.measure_at_end(reason)?;
        }
        self.journal.wait_for_checkpoint()?;
        let (step, seconds) = (self.step(), self.journal.seconds());
        self.journal.log(&[Event::RunEnded(RunEnded { step, reason, seconds })])?;
        self.part()?;
        let (overhead, stream) = (self.journal.overhead(), self.feed.stream_stats());
        // Planned anew for it: once is enough, by the rank that reports.
        let mates_kept = if self.is_first() { self.feed.mates_kept() } else { None };
        let seconds = self.standing.seconds(seconds);
        Ok(Outcome { reason, step, seconds, overhead, stream, mates_kept })
    }

    /// Keeps the model of this step when its validation is the best so far.
    pub(super) fn keep_best(&mut self, metric: &Metric, part: Option<ItemsMeasured>) -> Result<(), TrainError> {
        let Some(best) = self.standing.better(metric, part) else { return Ok(()) };
        self.standing.set_best(best);
        if !self.standing.is_saved() {
            self.save()?;
        }
        // Only one that is there can be named.
        self.journal.wait_for_checkpoint()?;
        self.standing.name_best(self.journal.path())?;
        Ok(self.standing.prune(self.journal.path(), self.config.keep_checkpoints)?)
    }

    /// Names the checkpoint of an interruption as the best when its validation is, until the run goes on: it then is as if
    /// that had not been.
    pub(super) fn note_best_of_interruption(
        &mut self,
        metric: &Metric,
        part: Option<ItemsMeasured>,
    ) -> Result<(), TrainError> {
        let Some(best) = self.standing.better(metric, part) else { return Ok(()) };
        self.journal.wait_for_checkpoint()?;
        Ok(note_best(self.journal.path(), Some(&Best { at_interruption: true, ..best }))?)
    }

    /// Whether there is a checkpoint of this step whatever is measured: several ranks do not wait for what a validation finds
    /// before they save.
    pub(super) fn is_saved_now(&self) -> bool {
        self.is_due(self.config.checkpoint_every) || (self.agreed.is_some() && self.is_due(self.config.validate_every))
    }

    pub(super) fn is_due(&self, every: u64) -> bool {
        self.standing.is_due(every, self.config.n_steps)
    }

    /// Writes a checkpoint, which is whole and has its name once the disk has it: until then a kill costs the steps since
    /// the one before.
    fn save(&mut self) -> Result<(), TrainError> {
        let _span = tracing::info_span!("checkpoint", step = self.step()).entered();
        self.journal.wait_for_checkpoint()?;
        let start = Instant::now();
        self.journal.begin(Doing::Checkpoint);
        if !self.has_weights()? {
            // Lost weights must never reach a checkpoint.
            return self.recover_weights();
        }
        if self.save_own()? {
            return Ok(());
        }
        // What is measured next is chosen here, so that a run that goes on from here measures the same.
        self.amount();
        let state = RunState {
            version: RunState::VERSION,
            kept: self.kept.clone(),
            seed: self.config.seed,
            step: self.step(),
            seconds: self.standing.seconds(self.journal.seconds()),
            log_bytes: self.journal.mark(),
            validated: self.validations.is_done(),
            best: self.standing.best().cloned(),
            budget: self.control.budget(),
            position: self.feed.position().clone(),
            epoch_samples: self.feed.epoch_samples(),
            controller: self.control.controller().clone(),
            balance: self.training.balance().clone(),
            unfit: self.feed.unfit(),
            validation: self.validations.state(),
        };
        let (model, optimizer) = (self.training.model(), self.training.optimizer());
        let written = state.write(self.journal.path(), model, optimizer, self.config.keep_checkpoints)?;
        self.journal.publish(written, start.elapsed())?;
        self.training.guard().note_saved();
        self.log_saved()
    }

    pub(super) fn log_saved(&mut self) -> Result<(), TrainError> {
        self.standing.note_saved();
        let step = self.step();
        Ok(self.journal.log(&[Event::CheckpointSaved(CheckpointSaved { step, path: name(step) })])?)
    }
}
