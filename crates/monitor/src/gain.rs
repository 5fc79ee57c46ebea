//! What larger micro-batches have brought.

use plimsoll_types::{Extent, Knobs, StepDone};

use crate::text::short;

/// A rate that differs by less than this part is the same.
const SAME_RATE: f64 = 0.05;
/// Steps of a size from which a rate can be told.
const RATED: u64 = 3;

/// The rates of the first and of the last size of a run; of steps that mix lengths none can be told, since what a sample takes
/// depends on its length.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Gains {
    first: Option<Rate>,
    last: Option<Rate>,
    current: Option<Alike>,
}

/// What steps of one size whose samples all extend alike did in a second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rate {
    knobs: Knobs,
    edges: Extent,
    samples_per_second: f64,
}

/// Steps of one size that follow one another, the first of them left out.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Alike {
    knobs: Knobs,
    edges: Edges,
    n_steps: u64,
    samples: u64,
    seconds: f64,
}

/// How samples extend.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Edges {
    Unknown,
    All(Extent),
    Mixed,
}

impl Gains {
    pub(crate) fn hear(&mut self, step: &StepDone) {
        match &mut self.current {
            Some(alike) if alike.knobs == step.rung => alike.hear(step),
            _ => {
                (self.first, self.last) = self.ends();
                self.current =
                    Some(Alike { knobs: step.rung, edges: Edges::Unknown, n_steps: 0, samples: 0, seconds: 0.0 });
            }
        }
    }

    /// Returns the rates of the first size and of the last.
    fn ends(&self) -> (Option<Rate>, Option<Rate>) {
        let current = self.current.and_then(Alike::rate);
        (self.first.or(current), current.or(self.last))
    }

    /// Says what larger micro-batches have brought, as far as it was measured: the rate of the last size against the first.
    pub(crate) fn told(&self) -> String {
        let (Some(first), Some(last)) = self.ends() else { return String::new() };
        let (small, large) = (first.knobs.micro_batch_size, last.knobs.micro_batch_size);
        // Longer samples or a larger patch are another amount of work.
        if small >= large || first.edges != last.edges {
            return String::new();
        }
        let (before, after) = (first.samples_per_second, last.samples_per_second);
        let ratio = after / before;
        let rate = format!("{} samples per second at batch {small}, {} at {large}", short(before), short(after));
        let settled = if ratio > 1.0 + SAME_RATE {
            "Larger micro-batches were faster"
        } else if ratio < 1.0 - SAME_RATE {
            "Larger micro-batches were slower"
        } else {
            "Larger micro-batches were no faster"
        };
        format!(" {settled}: {rate}.")
    }
}

impl Alike {
    fn hear(&mut self, step: &StepDone) {
        for it in &step.micro_batches {
            self.edges = match self.edges {
                Edges::Unknown => Edges::All(it.edges),
                Edges::All(edges) if edges == it.edges => self.edges,
                Edges::All(_) | Edges::Mixed => Edges::Mixed,
            };
        }
        (self.n_steps, self.samples) = (self.n_steps + 1, self.samples + step.n_samples());
        self.seconds += step.seconds;
    }

    fn rate(self) -> Option<Rate> {
        let Edges::All(edges) = self.edges else { return None };
        let samples_per_second = self.samples as f64 / self.seconds;
        (RATED <= self.n_steps && 0.0 < self.seconds).then_some(Rate { knobs: self.knobs, edges, samples_per_second })
    }
}
