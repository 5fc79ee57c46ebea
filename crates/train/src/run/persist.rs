//! What a run keeps, and how it goes back to it.

use std::time::Instant;

use burn::optim::AdamConfig;
use plimsoll_policy::CapacityWatch;
use plimsoll_step::TrainState;
use plimsoll_types::{CheckpointSaved, EndReason, Event, ItemsMeasured, RunEnded};

use super::{Run, Unfit, wanted};
use crate::checkpoint::{Best, Checkpoint, RunState, name, note_best, noted_best, prune, remove_after};
use crate::error::TrainError;
use crate::fit::{Doing, Outcome};
use crate::job::{Job, Metric};
use crate::loader::Loader;
use crate::meter::Meter;
use crate::recorder::Recorder;
use crate::resume::Kept;

impl<J: Job> Run<'_, J> {
    /// Validates and saves when it is time to.
    pub(crate) fn between_steps(&mut self) -> Result<(), TrainError> {
        // Saved first: a validation that does not fit must not cost the steps before it.
        if self.is_due(self.config.checkpoint_every) && self.saved_step != Some(self.step) {
            self.save()?;
        }
        // Where saving found lost weights, the run went back and has validated there.
        if self.is_due(self.config.validate_every) && !self.validated {
            self.validate()?;
        }
        Ok(())
    }

    /// Saves what is not saved yet, and logs the end.
    pub(crate) fn end(&mut self) -> Result<Outcome, TrainError> {
        // A validation that a signal broke off is still to be done.
        let is_validated = self.validated || !self.is_due(self.config.validate_every);
        let is_completed = self.config.n_steps <= self.step && is_validated;
        let reason = if is_completed { EndReason::Completed } else { EndReason::Interrupted };
        if self.saved_step != Some(self.step) {
            self.save()?;
        }
        match reason {
            EndReason::Completed => self.validate_whole_set()?,
            EndReason::Interrupted => self.validate_at_interruption()?,
        }
        let seconds = self.meter.seconds();
        self.log(&[Event::RunEnded(RunEnded { step: self.step, reason, seconds })])?;
        let seconds = self.seconds_before + seconds;
        let (overhead, stream) = (self.stopwatch.overhead(), self.loader.stream_stats());
        Ok(Outcome { reason, step: self.step, seconds, overhead, stream })
    }

    /// Goes back to the last checkpoint that is whole: what happened since is undone, in the log and among the
    /// checkpoints as well. Returns the events that were undone.
    ///
    /// The caller has the run [`Self::catch_up`] before the next step.
    pub(crate) fn return_to_last(&mut self) -> Result<Vec<Event>, TrainError> {
        let checkpoint = Checkpoint::last(self.dir.path(), &self.kept_settings())?;
        for damage in &checkpoint.passed_over {
            (self.warn)(&format!("passed over a damaged checkpoint: {damage}"));
        }
        let (asked, done) = (self.config.n_steps, checkpoint.state.step);
        if asked < done {
            return Err(TrainError::FewerSteps { asked, done });
        }
        self.load(&checkpoint)?;
        let RunState { step, log_bytes, .. } = checkpoint.state;
        // A checkpoint is written before the validation of its step, and does not know what that found.
        let noted = noted_best(self.dir.path()).filter(|it| it.step <= step && !it.at_interruption);
        self.best = self.best.take().into_iter().chain(noted).max_by_key(|it| it.step);
        remove_after(self.dir.path(), Some(step))?;
        note_best(self.dir.path(), self.best.as_ref())?;
        Ok(self.dir.undo_after(log_bytes)?)
    }

    /// Returns the settings that this run keeps.
    fn kept_settings(&self) -> Kept {
        Kept::of(self.job, self.config, &self.balance)
    }

    /// Takes everything from a checkpoint that a run has in memory.
    fn load(&mut self, checkpoint: &Checkpoint) -> Result<(), TrainError> {
        let RunState { step, validated, best, budget, position, epoch_samples, controller, balance, .. } =
            checkpoint.state.clone();
        let RunState { unfit, validation, .. } = checkpoint.state;
        (self.validation, self.is_broken_off) = (validation, false);
        (self.step, self.epoch_samples, self.validated, self.saved_step) = (step, epoch_samples, validated, None);
        // The best of then may have gone since, when a better one was found that is undone now.
        let best = best.filter(|it| self.dir.path().join(name(it.step)).is_dir());
        (self.best, self.budget, self.controller, self.balance) = (best, budget, controller, balance);
        self.unfit = Unfit::stricter(unfit, self.unfit);
        // Dropped first, so that there are never two.
        self.state.clear(AdamConfig::new().init());
        let plain = self.device.clone().inner().autodiff();
        self.device = if self.controller.is_checkpointing() { plain.gradient_checkpointing() } else { plain };
        self.guarded.set_device(self.device.clone());
        let model = self.job.init(&self.device);
        let (model, optimizer) = checkpoint.load(model, AdamConfig::new().build(), &self.device)?;
        self.state = TrainState::new(model, optimizer);
        let wanted = wanted(&self.controller);
        self.loader = Loader::try_new(&self.job.source(), Some(position), &wanted, &self.config.loader)?;
        // The time of steps that are undone has passed all the same.
        self.seconds_before = (self.seconds_before + self.meter.seconds()).max(checkpoint.state.seconds);
        let (knobs, unit) = (self.controller.policy().knobs(), self.job.unit_of_length());
        self.meter = Meter::new(step, self.config, knobs, budget.budget, unit);
        self.recorder = Recorder::new(self.controller.clone());
        self.watch = CapacityWatch::since(step);
        Ok(())
    }

    /// Logs and does what an undisturbed run has logged and done between its checkpoint and its next step.
    pub(crate) fn catch_up(&mut self) -> Result<(), TrainError> {
        // An end that the run had once, with fewer steps, is where it was validated too.
        let is_best = self.best.as_ref().is_some_and(|it| it.step == self.step);
        if is_best || self.is_due(self.config.checkpoint_every) {
            self.log_saved()?;
        }
        if (is_best || self.is_due(self.config.validate_every)) && !self.validated {
            self.validate()?;
        }
        Ok(())
    }

    /// Keeps the model of this step when its validation is the best so far.
    ///
    /// One that was of other items is no rival.
    pub(super) fn keep_best(&mut self, metric: &Metric, part: Option<ItemsMeasured>) -> Result<(), TrainError> {
        let Some(best) = self.better(metric, part) else { return Ok(()) };
        self.best = Some(best);
        if self.saved_step != Some(self.step) {
            self.save()?;
        }
        note_best(self.dir.path(), self.best.as_ref())?;
        Ok(prune(self.dir.path(), self.config.keep_checkpoints, self.best.as_ref())?)
    }

    /// Names the checkpoint of an interruption as the best when its validation is, until the run goes on: it then is as if
    /// that had not been.
    pub(super) fn note_best_of_interruption(
        &mut self,
        metric: &Metric,
        part: Option<ItemsMeasured>,
    ) -> Result<(), TrainError> {
        let Some(best) = self.better(metric, part) else { return Ok(()) };
        Ok(note_best(self.dir.path(), Some(&Best { at_interruption: true, ..best }))?)
    }

    /// Returns the validation of this step as the best so far, if it is.
    fn better(&self, metric: &Metric, part: Option<ItemsMeasured>) -> Option<Best> {
        let rival = self.best.as_ref().filter(|it| it.part == part).map(|it| it.metric);
        let (step, metric_name) = (self.step, metric.name.clone());
        let best = Best { step, metric_name, metric: metric.value, part, at_interruption: false };
        metric.is_better_than(rival).then_some(best)
    }

    fn is_due(&self, every: u64) -> bool {
        self.step == self.config.n_steps || self.step.is_multiple_of(every)
    }

    fn save(&mut self) -> Result<(), TrainError> {
        let start = Instant::now();
        self.begin(Doing::Checkpoint);
        if !self.has_weights()? {
            // Lost weights must never reach a checkpoint.
            return self.go_back(self.controller.policy().knobs(), None);
        }
        // What is measured next is chosen here, so that a run that goes on from here measures the same.
        self.amount();
        let state = RunState {
            version: RunState::VERSION,
            kept: self.kept_settings(),
            seed: self.config.seed,
            step: self.step,
            seconds: self.seconds_before + self.meter.seconds(),
            log_bytes: self.dir.mark()?,
            validated: self.validated,
            best: self.best.clone(),
            budget: self.budget,
            position: self.loader.position().clone(),
            epoch_samples: self.epoch_samples,
            controller: self.controller.clone(),
            balance: self.balance.clone(),
            unfit: self.unfit,
            validation: self.validation,
        };
        state.save(self.dir.path(), self.state.model(), self.state.optimizer(), self.config.keep_checkpoints)?;
        self.stopwatch.book_checkpoint(start.elapsed());
        self.n_recoveries = 0;
        self.log_saved()
    }

    fn log_saved(&mut self) -> Result<(), TrainError> {
        self.saved_step = Some(self.step);
        self.log(&[Event::CheckpointSaved(CheckpointSaved { step: self.step, path: name(self.step) })])
    }
}
