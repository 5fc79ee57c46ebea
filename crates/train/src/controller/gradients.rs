//! What a step that runs in parts keeps from one to the next.

use plimsoll_types::{Bytes, StepDone, StepShape};
use serde::{Deserialize, Serialize};

/// The sum of gradients, which every part of a step finds but the first.
///
/// Until a step has run in parts nobody knows what it takes; the step itself then finds out before its second part runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GradientSum {
    bytes: Bytes,
    /// Rows of the largest step so far: the last one of an epoch may have fewer.
    n_rows: u64,
    /// Whether steps have had parts of several edges, which no rung makes one of.
    mixes_edges: bool,
}

impl GradientSum {
    /// Learns from a step.
    pub(super) fn observe(&mut self, done: &StepDone) {
        self.n_rows = self.n_rows.max(done.n_rows());
        let parts = &done.micro_batches;
        self.mixes_edges |= parts.iter().any(|it| it.edges != parts[0].edges);
        let mut found = parts.iter().filter_map(|it| it.resident);
        let more = found.next().zip(found.max()).map(|(first, most)| most.saturating_sub(first));
        // Parts that ran side by side have found the same.
        self.bytes = more.filter(|it| *it != Bytes::ZERO).unwrap_or(self.bytes);
    }

    /// Returns what a step in parts of this shape keeps beside the largest of them: nothing, where it is one part.
    pub(super) fn beside(&self, shape: StepShape) -> Bytes {
        let is_whole = self.n_rows <= shape.samples.into() && !self.mixes_edges;
        if is_whole { Bytes::ZERO } else { self.bytes }
    }
}
