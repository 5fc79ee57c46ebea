//! Where a run stands, and which of its checkpoints is the best.

use std::path::Path;

use plimsoll_types::ItemsMeasured;

use crate::checkpoint::{Best, CheckpointError, note_best, noted_best, prune};
use crate::job::Metric;

/// How far a run is, and what it has kept of that.
#[derive(Debug, Default)]
pub(super) struct Standing {
    step: u64,
    /// The last step whose checkpoint is one that an undisturbed run has too.
    saved_step: Option<u64>,
    best: Option<Best>,
    /// What earlier processes took, and what was undone.
    seconds_before: f64,
}

impl Standing {
    /// Goes on where a checkpoint was written, after so many seconds.
    pub(super) fn load(&mut self, step: u64, best: Option<Best>, seconds_before: f64) {
        *self = Self { step, saved_step: None, best, seconds_before };
    }

    /// Returns how many steps are done.
    pub(super) fn step(&self) -> u64 {
        self.step
    }

    /// Counts a step that is done.
    pub(super) fn count_step(&mut self) {
        self.step += 1;
    }

    /// Whether something is due that is done every so many steps, and after the last.
    pub(super) fn is_due(&self, every: u64, n_steps: u64) -> bool {
        self.step == n_steps || self.step.is_multiple_of(every)
    }

    /// Whether this step has a checkpoint.
    pub(super) fn is_saved(&self) -> bool {
        self.saved_step == Some(self.step)
    }

    /// Notes that it has.
    pub(super) fn note_saved(&mut self) {
        self.saved_step = Some(self.step);
    }

    /// Returns the wall time of the run, of whose last part these are the seconds.
    pub(super) fn seconds(&self, now: f64) -> f64 {
        self.seconds_before + now
    }

    pub(super) fn best(&self) -> Option<&Best> {
        self.best.as_ref()
    }

    /// Returns how many steps there were since the best checkpoint, where one was validated.
    pub(super) fn since_best(&self) -> Option<u64> {
        self.best.as_ref().map(|it| self.step.saturating_sub(it.step))
    }

    /// Whether the checkpoint of this step is the best.
    pub(super) fn is_best(&self) -> bool {
        self.best.as_ref().is_some_and(|it| it.step == self.step)
    }

    /// Takes the best checkpoint that the run directory names, where that is newer: a checkpoint is written before the
    /// validation of its step, and does not know what that found.
    pub(super) fn take_noted(&mut self, run_dir: &Path) {
        let noted = noted_best(run_dir).filter(|it| it.step <= self.step && !it.at_interruption);
        self.best = self.best.take().into_iter().chain(noted).max_by_key(|it| it.step);
    }

    /// Returns the validation of this step as the best so far, if it is; one that was of other items is no rival.
    pub(super) fn better(&self, metric: &Metric, part: Option<ItemsMeasured>) -> Option<Best> {
        let rival = self.best.as_ref().filter(|it| it.part == part).map(|it| it.metric);
        let (step, metric_name) = (self.step, metric.name.clone());
        let best = Best { step, metric_name, metric: metric.value, part, at_interruption: false };
        metric.is_better_than(rival).then_some(best)
    }

    pub(super) fn set_best(&mut self, best: Best) {
        self.best = Some(best);
    }

    /// Names the best checkpoint in the run directory.
    pub(super) fn name_best(&self, run_dir: &Path) -> Result<(), CheckpointError> {
        note_best(run_dir, self.best.as_ref())
    }

    /// Removes checkpoints that are too many: all but the newest, and the best.
    pub(super) fn prune(&self, run_dir: &Path, n_kept: usize) -> Result<(), CheckpointError> {
        prune(run_dir, n_kept, self.best.as_ref())
    }
}
