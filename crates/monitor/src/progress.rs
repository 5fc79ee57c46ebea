//! Where a run stands.

use plimsoll_types::{Bytes, Event, Extent, Knobs, RunStarted};

use crate::Work;
use crate::policy::Policy;
use crate::text::{short, time, unit_of_length};

/// What is said of a run while it goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Steps done.
    pub step: u64,
    /// Steps asked for.
    pub n_steps: u64,
    /// Epoch, from 0.
    pub epoch: u64,
    /// Loss of the last step.
    pub loss: f64,
    /// Name of the metric, with its unit.
    pub metric_name: String,
    /// The metric of the last validation.
    pub metric: Option<f64>,
    /// Steps done before it.
    pub metric_step: u64,
    /// The validation under way.
    pub validating: Option<Validating>,
    /// The knobs of the last step.
    pub knobs: Knobs,
    /// What the largest samples are padded to, where samples have lengths.
    pub largest: Option<Extent>,
    /// What a length counts, such as "tokens".
    pub unit_of_length: String,
    /// Samples per second.
    pub samples_per_second: f64,
    /// Peak of the last step.
    pub peak: Bytes,
    /// Budget of the last step.
    pub budget: Bytes,
    /// What reads the samples, where somebody measures it.
    pub supply: Option<Supply>,
    /// Time left in seconds, once it can be told.
    pub seconds_left: Option<f64>,
}

/// What reads the samples of the next steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Supply {
    /// Threads that read.
    pub workers: usize,
    /// The part of the steps' time, from 0 to 1, that these have waited for their samples.
    pub waited: f64,
}

/// How far a validation is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Validating {
    /// Items that are measured.
    pub n_done: u64,
    /// Items to be measured.
    pub n: u64,
    /// Time that it still takes in seconds, once it can be told.
    pub seconds_left: Option<f64>,
}

impl Progress {
    /// Describes a run before its first step.
    pub fn new(n_steps: u64, knobs: Knobs, budget: Bytes, unit_of_length: &str, largest: Option<Extent>) -> Self {
        Self {
            step: 0,
            n_steps,
            epoch: 0,
            loss: f64::NAN,
            metric_name: String::new(),
            metric: None,
            metric_step: 0,
            validating: None,
            knobs,
            largest,
            unit_of_length: unit_of_length.to_owned(),
            samples_per_second: 0.0,
            peak: Bytes::ZERO,
            budget,
            supply: None,
            seconds_left: None,
        }
    }

    /// Describes a run that begins, as the head of its log says.
    pub fn of(start: &RunStarted) -> Self {
        let largest = Policy::of(start).cells.last().copied();
        Self::new(start.n_steps, start.knobs, start.budget.budget, &start.unit_of_length, largest)
    }

    /// Takes over what an event says; what takes a clock is the caller's.
    pub fn hear(&mut self, event: &Event) {
        match event {
            Event::StepDone(done) => {
                (self.step, self.epoch, self.loss) = (done.step + 1, done.epoch, done.loss);
                (self.knobs, self.peak, self.budget) = (done.rung, done.peak, done.budget);
            }
            Event::Validated(validated) => {
                self.metric_name.clone_from(&validated.metric_name);
                (self.metric, self.metric_step) = (Some(validated.metric), validated.step);
            }
            _ => {}
        }
    }

    /// Returns what the model does, what matters most first.
    pub(crate) fn learning(&self) -> Vec<String> {
        let mut parts = vec![format!("step {}/{}", self.step, self.n_steps)];
        if let Some(it) = self.validating {
            let left = it.seconds_left.map_or_else(String::new, |left| format!(", {} left", time(left)));
            parts.push(format!("validating: {} of {}{left}", it.n_done, it.n));
            return parts;
        }
        parts.push(format!("training loss {}", short(self.loss)));
        let metric = |it| format!("held out: {} {} (at {})", self.metric_name, short(it), self.metric_step);
        parts.extend(self.metric.map(metric));
        parts
    }

    /// Returns sizes, speed and time: what was done in a second of real positions, where samples are padded, and of samples.
    pub(crate) fn running(&self, work: Option<Work>) -> Vec<String> {
        let (unit, samples) = (unit_of_length(&self.unit_of_length), self.samples_per_second);
        let positions = work.and_then(|it| it.real_positions_per_second).map(|it| format!("{} {unit}/s", short(it)));
        let left = self.seconds_left.map(|it| format!("{} left", time(it)));
        [self.sizes(), format!("{} samples/s", short(samples))].into_iter().chain(positions).chain(left).collect()
    }

    /// Returns the sizes of a step.
    fn sizes(&self) -> String {
        let (n, unit) = (self.knobs.micro_batch_size, unit_of_length(&self.unit_of_length));
        self.largest.map_or_else(|| self.knobs.to_string(), |largest| format!("batch {n} of {largest} {unit}"))
    }

    /// Returns the peak of the last step as a part of its budget.
    pub(crate) fn share(&self) -> f64 {
        self.peak.share_of(self.budget)
    }
}
