//! What the stepwise policy has seen and done.

use std::collections::VecDeque;

use plimsoll_types::{Bytes, Knobs, MoveReason};
use serde::{Deserialize, Serialize};

use crate::StepMeasured;

/// Use of memory, changes and failures so far; shares are `peak.share_of(capacity)` and the like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepwiseStatistics {
    /// Highest peak since the last change, the step of the change included.
    pub peak: Bytes,
    /// Mean of the last `history_size` peaks.
    pub average: Bytes,
    /// Bytes in use after the last step.
    pub current: Bytes,
    /// Capacity during the last step.
    pub capacity: Bytes,
    /// Whether the last step's peak was above 95 % of the capacity.
    pub alarm: bool,
    /// The knobs of the next step.
    pub knobs: Knobs,
    /// How many times the knobs have moved.
    pub adjustments: u32,
    /// How many steps ran out of memory.
    pub oom_count: u32,
    /// Each change of one knob, oldest first; out of memory changes two at once.
    pub history: Vec<Adjustment>,
}

/// A change of one knob.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Adjustment {
    /// The step after which it was made, counted from 1.
    pub iteration: u64,
    /// The knob.
    pub parameter: Parameter,
    /// Its value until then.
    pub old: u32,
    /// Its value from then on.
    pub new: u32,
    /// Why.
    pub reason: MoveReason,
}

/// A knob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parameter {
    /// The patch size.
    PatchSize,
    /// The micro-batch size.
    MicroBatchSize,
}

/// The readings that the statistics are made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Readings {
    pub(super) peak: Bytes,
    pub(super) current: Bytes,
    pub(super) capacity: Bytes,
    peaks: VecDeque<Bytes>,
}

impl Readings {
    pub(super) fn add(&mut self, done: &StepMeasured, history_size: usize) {
        (self.current, self.capacity) = (done.in_use, done.budget.capacity);
        self.peak = self.peak.max(done.peak);
        self.peaks.push_back(done.peak);
        if history_size < self.peaks.len() {
            self.peaks.pop_front();
        }
    }

    /// Lets the peak start again from the last one.
    pub(super) fn restart(&mut self) {
        self.peak = self.last_peak();
    }

    pub(super) fn last_peak(&self) -> Bytes {
        self.peaks.back().copied().unwrap_or_default()
    }

    pub(super) fn average(&self) -> Bytes {
        let sum: f64 = self.peaks.iter().map(|it| it.as_f64()).sum();
        Bytes::from_f64_ceil(sum / self.peaks.len().max(1) as f64)
    }
}
