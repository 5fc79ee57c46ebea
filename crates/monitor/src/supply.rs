//! How far ahead of the steps their samples were read, where they are streamed.

use plimsoll_types::{Bytes, StepDone, SupplyStep};
use serde::{Deserialize, Serialize};

use crate::text::{counted, share, time};

/// What reading ahead came to over the steps of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SupplyReport {
    /// Threads that read samples, at the end.
    pub workers: u32,
    /// What the steps waited for their samples, in seconds.
    pub waited_seconds: f64,
    /// The same as a part of their time.
    pub waited_share: f64,
    /// Mean number of steps that were collated and waited for their turn.
    pub mean_ready_steps: f64,
    /// Mean part of the look-ahead buffer that was full.
    pub mean_buffer_fill: f64,
    /// The most samples that the buffer held after a step.
    pub most_buffered_samples: u64,
    /// The most host memory that these took.
    pub most_buffered_bytes: Bytes,
}

/// Sums over the steps that say it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SupplySum {
    n: u64,
    workers: u32,
    seconds: f64,
    waited: f64,
    ready: u64,
    fill: f64,
    most: (u64, Bytes),
}

impl SupplySum {
    pub(crate) fn hear(&mut self, step: &StepDone) {
        let Some(SupplyStep { workers, waited_seconds, ready_steps, buffered_samples, buffered_bytes, buffer_fill }) =
            step.supply
        else {
            return;
        };
        (self.n, self.workers, self.seconds) = (self.n + 1, workers, self.seconds + step.seconds);
        self.waited += waited_seconds;
        self.ready += u64::from(ready_steps);
        self.fill += buffer_fill;
        self.most = (self.most.0.max(buffered_samples), self.most.1.max(buffered_bytes));
    }

    /// Returns what they come to; `None` where no step says it.
    pub(crate) fn report(self) -> Option<SupplyReport> {
        let Self { n, workers, seconds, waited, ready, fill, most } = self;
        (0 < n).then(|| SupplyReport {
            workers,
            waited_seconds: waited,
            waited_share: if 0.0 < seconds { waited / seconds } else { 0.0 },
            mean_ready_steps: ready as f64 / n as f64,
            mean_buffer_fill: fill / n as f64,
            most_buffered_samples: most.0,
            most_buffered_bytes: most.1,
        })
    }
}

impl SupplyReport {
    /// Writes how full the buffer was.
    pub(crate) fn buffer_line(&self) -> String {
        let (samples, bytes) = (counted(self.most_buffered_samples, "sample"), self.most_buffered_bytes);
        format!("{} full in the mean; at most {samples} and {bytes}", share(self.mean_buffer_fill))
    }

    /// Writes whether steps had to wait.
    pub(crate) fn waiting_line(&self) -> String {
        let (waited, workers) = (time(self.waited_seconds), counted(self.workers.into(), "worker"));
        let ready = self.mean_ready_steps;
        format!(
            "waited {waited}, {} of the steps, for {workers}; {ready:.1} steps ready in the mean",
            share(self.waited_share)
        )
    }
}
