//! What steps have shown, for metrics that run on another thread.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use burn::train::metric::MetricMetadata;
use plimsoll_types::Bytes;

/// Steps that are remembered: events reach metrics through a queue of one, so they are at most three steps behind.
const KEPT: usize = 4;

/// What an optimizer step has shown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct StepFigures {
    /// The number of the step in its epoch.
    pub(crate) iteration: usize,
    /// Its samples.
    pub(crate) n_samples: usize,
    /// The micro-batches that they ran in.
    pub(crate) n_parts: usize,
    /// The sum of the lengths of the samples.
    pub(crate) positions: u64,
    /// The same once each is padded to the longest of its micro-batch.
    pub(crate) padded: u64,
    /// Since the end of the step before.
    pub(crate) duration: Duration,
    /// The highest bound of its micro-batches, where one was known before they ran.
    pub(crate) predicted: Option<Bytes>,
    /// Its high-water mark.
    pub(crate) peak: Bytes,
    /// What was not to be exceeded.
    pub(crate) budget: Bytes,
    /// Micro-batches that ran out of memory, and whose samples ran again.
    pub(crate) recoveries: usize,
}

/// The last steps, shared by the strategy that writes them and the metrics that read them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures(Arc<Mutex<VecDeque<StepFigures>>>);

impl Figures {
    /// Notes a step before its events are sent.
    pub(crate) fn note(&self, step: StepFigures) {
        let mut steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        steps.truncate(KEPT - 1);
        steps.push_front(step);
    }

    /// Returns the step that an event belongs to; `None` in validation, which has no learning rate.
    pub(crate) fn of(&self, event: &MetricMetadata) -> Option<StepFigures> {
        event.lr.as_ref()?;
        let steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        steps.iter().find(|it| Some(it.iteration) == event.iteration).copied()
    }
}
