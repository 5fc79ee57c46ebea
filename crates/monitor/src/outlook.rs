//! What a plan means for a whole data set.

use plimsoll_types::{Bytes, StepShape};

use crate::table::{pairs, size};
use crate::text::{percent, short, time};

/// What training on a whole data set would take.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlook {
    /// Samples of an epoch.
    pub samples: u64,
    /// Share of each task in the samples, 0 to 1, by name; empty where there is one task only.
    pub task_shares: Vec<(String, f64)>,
    /// Epochs asked for; a part of one counts as its part.
    pub epochs: f64,
    /// The micro-batch that was planned for.
    pub shape: StepShape,
    /// Whether it has packed rows in place of samples.
    pub is_packed: bool,
    /// Micro-batches of a step.
    pub accumulation_steps: u32,
    /// Micro-batches of all epochs.
    pub batches: u64,
    /// Optimizer steps of all epochs.
    pub steps: u64,
    /// What a micro-batch adds to the memory that is there before it.
    pub batch_memory: Option<Bytes>,
    /// Reserved memory at its highest.
    pub peak: Option<Bytes>,
    /// Time for all steps in seconds, once a step has been timed.
    pub seconds: Option<f64>,
}

impl Outlook {
    /// Writes the outlook as a table for the terminal.
    pub fn to_table(&self, width: usize) -> String {
        let mut rows = vec![("samples", self.samples.to_string())];
        if !self.task_shares.is_empty() {
            let share = |(name, share): &(String, f64)| format!("{name} {}", percent(*share));
            let shares: Vec<String> = self.task_shares.iter().map(share).collect();
            rows.push(("task shares", shares.join(", ")));
        }
        let of = if self.is_packed { "packed rows of" } else { "samples at edge" };
        let time = self.seconds.map_or("unknown until a step has been timed".to_owned(), time);
        rows.extend([
            ("epochs", if self.epochs.fract() == 0.0 { self.epochs.to_string() } else { short(self.epochs) }),
            ("batch", format!("{} {of} {}", self.shape.samples, self.shape.extent())),
            ("batches", self.batches.to_string()),
            ("steps", format!("{} of {} batches each", self.steps, self.accumulation_steps)),
            ("memory per batch", size(self.batch_memory)),
            ("peak", size(self.peak)),
            ("time", time),
        ]);
        pairs(&rows, width)
    }
}
