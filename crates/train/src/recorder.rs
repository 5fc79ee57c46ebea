//! The last steps of a run, kept in memory for the case of a failure.

use plimsoll_types::Event;

use crate::controller::Controller;
use crate::incident::{Incident, Surroundings};

/// Steps that are kept at least.
const STEPS: u64 = 200;

/// Steps between two looks at what is around.
const LOOK_EVERY: u64 = 16;

/// Keeps the events of the last steps, and the state of predictor and policy before the first of them.
///
/// They come in two spans of 200 steps: when the second is full, the first is forgotten, so that nothing is ever taken
/// again step by step to bring the state forward.
#[derive(Debug)]
pub(crate) struct Recorder {
    older: Option<Span>,
    newer: Span,
    /// The step of the last incident that was written of a step that went on.
    reported: Option<u64>,
}

#[derive(Debug)]
struct Span {
    controller: Controller,
    n_steps: u64,
    /// The events as the log has them, so that noting one takes no memory once there is room for two spans.
    lines: Vec<u8>,
    surroundings: Vec<Surroundings>,
}

impl Span {
    fn new(controller: Controller) -> Self {
        Self { controller, n_steps: 0, lines: Vec::new(), surroundings: Vec::new() }
    }

    /// Begins anew where another span was, in its room.
    fn again(mut self, controller: Controller) -> Self {
        self.lines.clear();
        self.surroundings.clear();
        Self { controller, n_steps: 0, ..self }
    }
}

impl Recorder {
    /// Begins with this state.
    pub(crate) fn new(controller: Controller) -> Self {
        Self { older: None, newer: Span::new(controller), reported: None }
    }

    /// Notes events and the lines that the log has of them.
    pub(crate) fn note(&mut self, events: &[Event], lines: &[u8]) {
        self.newer.n_steps += events.iter().filter(|it| matches!(it, Event::StepDone(_))).count() as u64;
        self.newer.lines.extend_from_slice(lines);
    }

    /// Between two steps: looks around now and then, and begins a new span when one is full.
    pub(crate) fn turn(&mut self, step: u64, controller: &Controller, look: impl FnOnce() -> Surroundings) {
        if step.is_multiple_of(LOOK_EVERY) {
            self.newer.surroundings.push(look());
        }
        if STEPS <= self.newer.n_steps {
            let next = match self.older.take() {
                Some(oldest) => oldest.again(controller.clone()),
                None => Span::new(controller.clone()),
            };
            let full = std::mem::replace(&mut self.newer, next);
            self.older = Some(full);
        }
    }

    /// Whether a failure that a step survived deserves a report: one span says all about those that follow soon.
    pub(crate) fn is_due(&mut self, step: u64) -> bool {
        let is_due = self.reported.is_none_or(|last| step < last || STEPS <= step - last);
        if is_due {
            self.reported = Some(step);
        }
        is_due
    }

    /// Describes a failure.
    pub(crate) fn incident(&self, failure: String, step: u64, samples: Vec<u64>, now: Surroundings) -> Incident {
        let spans = || self.older.iter().chain([&self.newer]);
        let values = |span: &Span| {
            let lines = span.lines.split(|it| *it == b'\n').filter(|it| !it.is_empty());
            lines.map(|it| serde_json::from_slice(it).unwrap_or_default()).collect::<Vec<_>>()
        };
        Incident {
            version: Incident::VERSION,
            failure,
            step,
            samples,
            surroundings: spans().flat_map(|it| it.surroundings.iter().copied()).chain([now]).collect(),
            controller: spans().next().unwrap_or(&self.newer).controller.clone(),
            events: spans().flat_map(values).collect(),
        }
    }
}
