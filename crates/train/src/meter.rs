//! Where the run stands, from its events and the clock.

use std::time::Instant;

use plimsoll_monitor::Progress;
use plimsoll_types::{Bytes, Event, Knobs};

/// Follows a run's events and estimates the time left.
#[derive(Debug)]
pub(crate) struct Meter {
    progress: Progress,
    began: Instant,
    first_step: u64,
    samples: u64,
}

impl Meter {
    pub(crate) fn new(first_step: u64, n_steps: u64, knobs: Knobs, budget: Bytes) -> Self {
        let progress = Progress {
            step: first_step,
            n_steps,
            epoch: 0,
            loss: f64::NAN,
            metric_name: String::new(),
            metric: None,
            knobs,
            has_lengths: false,
            samples_per_second: 0.0,
            peak: Bytes::ZERO,
            budget,
            seconds_left: None,
        };
        Self { progress, began: Instant::now(), first_step, samples: 0 }
    }

    /// Returns the wall time of this part of the run in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    pub(crate) fn update(&mut self, event: &Event) {
        let progress = &mut self.progress;
        match event {
            Event::StepDone(done) => {
                self.samples += done.n_samples();
                let seconds = self.began.elapsed().as_secs_f64();
                progress.step = done.step + 1;
                progress.epoch = done.epoch;
                progress.loss = done.loss;
                progress.knobs = done.rung;
                progress.has_lengths |= done.micro_batches.iter().any(|it| it.edges.edge() != done.rung.patch_size);
                progress.peak = done.peak;
                progress.budget = done.budget;
                progress.samples_per_second = self.samples as f64 / seconds;
                let n_done = (progress.step - self.first_step) as f64;
                let n_left = progress.n_steps.saturating_sub(progress.step) as f64;
                progress.seconds_left = Some(seconds / n_done * n_left);
            }
            Event::Validated(validated) => {
                progress.metric_name.clone_from(&validated.metric_name);
                progress.metric = Some(validated.metric);
            }
            _ => (),
        }
    }
}
