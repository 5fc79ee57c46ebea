//! Where the run stands, from its events and the clock.

use std::time::Instant;

use plimsoll_monitor::{Ahead, Pace, Progress, Supply, Validating};
use plimsoll_types::{Bytes, Decision, Event, Knobs};

use crate::config::FitConfig;

/// Steps after which what one takes is known well enough to decide by.
const STEADY: u64 = 8;

/// Follows a run's events and estimates the time left.
#[derive(Debug)]
pub(crate) struct Meter {
    progress: Progress,
    pace: Pace,
    began: Instant,
    /// When the last step, validation or checkpoint ended.
    last: Instant,
    validation_began: Option<Instant>,
    n_workers: usize,
    validate_every: u64,
    checkpoint_every: u64,
    /// Whether the step that the run stands at is validated.
    is_validated: bool,
    samples: u64,
    n_steps: u64,
}

impl Meter {
    pub(crate) fn new(first_step: u64, config: &FitConfig, knobs: Knobs, budget: Bytes, unit: &str) -> Self {
        let largest = config.loader.cells.last().copied();
        let progress = Progress::new(config.n_steps, knobs, budget, unit, largest);
        let progress = Progress { step: first_step, ..progress };
        let (validate_every, checkpoint_every) = (config.validate_every, config.checkpoint_every);
        let (pace, now) = (Pace::default(), Instant::now());
        Self {
            progress,
            pace,
            began: now,
            last: now,
            validation_began: None,
            n_workers: config.loader.workers,
            validate_every,
            checkpoint_every,
            is_validated: false,
            samples: 0,
            n_steps: 0,
        }
    }

    /// Returns the wall time of this part of the run in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Returns what a step takes of late, once enough have been done.
    pub(crate) fn seconds_of_step(&self) -> Option<f64> {
        if STEADY <= self.n_steps { self.pace.of_step() } else { None }
    }

    /// Hears what a validation will take, as far as is known.
    pub(crate) fn expect_validations(&mut self, seconds: f64) {
        self.pace.validation(seconds);
        self.progress.seconds_left = self.pace.seconds_left(self.ahead());
    }

    /// Hears which part of their time steps have waited for their samples.
    pub(crate) fn supply(&mut self, waited: Option<f64>) {
        self.progress.supply = waited.map(|waited| Supply { workers: self.n_workers, waited });
    }

    /// Hears that a validation begins: its first items may take long.
    pub(crate) fn begin_validation(&mut self) {
        self.validation_began = Some(Instant::now());
    }

    /// Returns where the run stands while it validates.
    pub(crate) fn validating(&mut self, n_done: u64, n: u64) -> &Progress {
        let began = *self.validation_began.get_or_insert_with(Instant::now);
        let seconds = began.elapsed().as_secs_f64();
        let seconds_left = (0 < n_done).then(|| seconds / n_done as f64 * n.saturating_sub(n_done) as f64);
        self.progress.validating = Some(Validating { n_done, n, seconds_left });
        &self.progress
    }

    /// Hears that a validation ended, whatever came of it.
    pub(crate) fn end_validation(&mut self) {
        (self.validation_began, self.progress.validating) = (None, None);
    }

    pub(crate) fn update(&mut self, event: &Event) {
        match event {
            Event::RunStarted(_) => self.last = Instant::now(),
            Event::StepDone(done) => {
                let seconds = self.lap();
                self.pace.step(seconds);
                self.is_validated = false;
                (self.samples, self.n_steps) = (self.samples + done.n_samples(), self.n_steps + 1);
                self.progress.samples_per_second = self.samples as f64 / self.began.elapsed().as_secs_f64();
            }
            Event::Decided(it) if matches!(it.decision, Decision::Move(_) | Decision::Resize(_)) => self.pace.change(),
            Event::CheckpointSaved(_) => {
                let seconds = self.lap();
                self.pace.checkpoint(seconds);
            }
            Event::Validated(_) => {
                let seconds = self.lap();
                self.pace.validation(seconds);
                self.is_validated = true;
            }
            _ => return,
        }
        self.progress.hear(event);
        self.progress.seconds_left = self.pace.seconds_left(self.ahead());
    }

    fn ahead(&self) -> Ahead {
        let Progress { step, n_steps, .. } = self.progress;
        Ahead::after(step, n_steps, self.validate_every, self.checkpoint_every, self.is_validated)
    }

    /// Returns the time since the last lap.
    fn lap(&mut self) -> f64 {
        let now = Instant::now();
        now.duration_since(std::mem::replace(&mut self.last, now)).as_secs_f64()
    }
}
