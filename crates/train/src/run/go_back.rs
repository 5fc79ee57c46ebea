//! The way back to a checkpoint.

use plimsoll_types::{Budget, Event};

use super::Run;
use crate::checkpoint::{Checkpoint, RankState, RunState, name, remove_after};
use crate::controller::Controller;
use crate::error::TrainError;
use crate::job::Job;

/// The controller of a rank, and the memory that it knows of.
pub(super) type Own = (Controller, Budget);

impl<J: Job> Run<'_, '_, J> {
    /// Goes back to the last checkpoint that is whole: what happened since is undone, in the log and among the
    /// checkpoints as well. Returns the events that were undone.
    ///
    /// The caller has the run [`Self::catch_up`] before the next step.
    pub(super) fn return_to_last(&mut self) -> Result<Vec<Event>, TrainError> {
        self.journal.wait_for_checkpoint()?;
        let checkpoint = Checkpoint::last(&self.root, &self.kept)?;
        for damage in &checkpoint.passed_over {
            self.journal.warn(&format!("passed over a damaged checkpoint: {damage}"));
        }
        let (asked, done) = (self.config.n_steps, checkpoint.state.step);
        if asked < done {
            return Err(TrainError::FewerSteps { asked, done });
        }
        self.load(&checkpoint, None)?;
        self.standing.take_noted(self.journal.path());
        remove_after(self.journal.path(), Some(self.standing.step()))?;
        self.standing.name_best(self.journal.path())?;
        // A kill may have come between a checkpoint's name and the removal of those that it made too many.
        self.standing.prune(self.journal.path(), self.config.keep_checkpoints)?;
        Ok(self.journal.undo_after(checkpoint.state.log_bytes)?)
    }

    /// Begins again with a run that was killed before its first checkpoint.
    pub(super) fn return_to_nothing(&mut self) -> Result<Vec<Event>, TrainError> {
        let warning = format!("{} holds no checkpoint: the run begins again", self.journal.path().display());
        self.journal.warn(&warning);
        remove_after(self.journal.path(), None)?;
        RankState::remove_after(self.journal.path(), None)?;
        Ok(self.journal.undo_after(0)?)
    }

    /// Takes everything from a checkpoint that a run has in memory; another rank than the first has its own controller, or
    /// begins with the one that it has.
    pub(super) fn load(&mut self, checkpoint: &Checkpoint, own: Option<Own>) -> Result<(), TrainError> {
        let RunState { step, validated, best, position, epoch_samples, balance, unfit, .. } = checkpoint.state.clone();
        let (controller, budget) = own.unwrap_or_else(|| {
            let RunState { controller, budget, .. } = &checkpoint.state;
            (controller.clone(), *budget)
        });
        let RunState { validation, seconds, .. } = checkpoint.state;
        // The best of then may have gone since, when a better one was found that is undone now.
        // Of several ranks the first alone knows what its validations find.
        let best = best.filter(|it| self.is_first() && self.root.join(name(it.step)).is_dir());
        // The time of steps that are undone has passed all the same.
        let seconds = self.standing.seconds(self.journal.seconds()).max(seconds);
        self.standing.load(step, best, seconds);
        self.validations.load(validation, validated);
        self.control.load(step, controller, budget);
        self.training.load(self.job, checkpoint, balance)?;
        let unfit = unfit.filter(|_| self.is_first());
        self.feed.load(position, &self.wanted(), epoch_samples, unfit)?;
        let about = (self.control.controller(), budget.budget);
        self.journal.begin_again(step, self.config, about, self.job.unit_of_length());
        Ok(())
    }

    /// Logs and does what an undisturbed run has logged and done between its checkpoint and its next step.
    pub(super) fn catch_up(&mut self) -> Result<(), TrainError> {
        // An end that the run had once, with fewer steps, is where it was validated too.
        // The first of several ranks alone knows that, and all of them have saved alike.
        let is_best = self.agreed.is_none() && self.standing.is_best();
        if is_best || self.is_saved_now() {
            self.log_saved()?;
        }
        if (is_best || self.is_due(self.config.validate_every)) && !self.validations.is_done() {
            self.validate()?;
        }
        Ok(())
    }
}
