//! What a run of fuzzing has seen.

use std::path::Path;
use std::time::Duration;

use super::limits::{Cost, save};

/// Inputs, and the worst of them.
#[derive(Debug, Default)]
pub(super) struct Tally {
    accepted: u64,
    rejected: u64,
    worst_time: Duration,
    /// In bytes.
    worst_memory: usize,
    pub(super) seconds: f64,
}

impl Tally {
    /// Counts an input, and returns whether it was accepted.
    pub(super) fn count(&mut self, cost: Cost) -> bool {
        *(if cost.accepted { &mut self.accepted } else { &mut self.rejected }) += 1;
        self.worst_time = self.worst_time.max(cost.time);
        self.worst_memory = self.worst_memory.max(cost.memory);
        cost.accepted
    }

    pub(super) fn inputs(&self) -> u64 {
        self.accepted + self.rejected
    }

    pub(super) fn write(&self, path: &Path, reader: &str) {
        let figures = serde_json::json!({
            "reader": reader,
            "seconds": self.seconds,
            "inputs": self.inputs(),
            "accepted": self.accepted,
            "rejected": self.rejected,
            "worst_ms": self.worst_time.as_secs_f64() * 1e3,
            "worst_bytes": self.worst_memory,
        });
        save(path, figures.to_string().as_bytes());
    }
}
