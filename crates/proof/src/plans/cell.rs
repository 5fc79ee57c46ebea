//! One cell, planned and run.

use plimsoll_predict::{Phase, Source};
use plimsoll_types::{Bytes, Extent, edge_or_edges};
use serde::{Deserialize, Serialize};

/// What was planned for a cell, and what it took in a fresh process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellRow {
    /// The reference job.
    pub job: String,
    /// The device.
    pub device: String,
    /// Whether activations are recomputed in the backward pass.
    pub checkpointing: bool,
    /// Whether gradients are computed.
    pub phase: Phase,
    /// Samples of the micro-batch.
    pub batch: u32,
    /// Extent of a sample.
    #[serde(rename = "edge", with = "edge_or_edges")]
    pub extent: Extent,
    /// Samples of the optimizer step: more than `batch` accumulate gradients.
    pub n_samples: u32,
    /// Where the planned figures come from.
    pub source: Source,
    /// What the tensors' pools were expected to hold; without pools, what was expected to be in use at the peak.
    pub predicted_reserved: Bytes,
    /// What they held.
    pub measured_reserved: Bytes,
    /// What the device was expected to hold in all, with the runtime's own buffers; `None` without pools, as for the
    /// next two.
    pub predicted_total: Option<Bytes>,
    /// Upper bound of it.
    pub upper_total: Option<Bytes>,
    /// What it held in all.
    pub measured_total: Option<Bytes>,
    /// Size of a page, or zero without pages.
    pub page: Bytes,
    /// Expected peak of what live tensors hold; `None` on a device that reports none, as for the next two.
    pub predicted_in_use: Option<Bytes>,
    /// Upper bound of that peak.
    pub upper_in_use: Option<Bytes>,
    /// The peak.
    pub measured_in_use: Option<Bytes>,
    /// What was in use before the last step.
    pub resident: Bytes,
    /// Wall time of planning the cell, in milliseconds; with kernels compiled, where a plan takes any.
    pub planning_ms: f64,
    /// Wall time of the last real step, in seconds.
    pub step_seconds: f64,
}

/// An expected value, its upper bound, and what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Expected.
    pub expected: Bytes,
    /// Not to be exceeded.
    pub upper: Bytes,
    /// Measured.
    pub measured: Bytes,
}

impl CellRow {
    /// Returns what is judged: all that is in use where that is known, and else all that is reserved.
    pub fn judged(&self) -> Option<Judged> {
        let all = |expected: Option<_>, upper: Option<_>, measured: Option<_>| {
            Some(Judged { expected: expected?, upper: upper?, measured: measured? })
        };
        all(self.predicted_in_use, self.upper_in_use, self.measured_in_use)
            .or_else(|| all(self.predicted_total, self.upper_total, self.measured_total))
    }

    /// Whether more than the upper bound was measured.
    pub fn violates(&self) -> bool {
        self.judged().is_some_and(|it| it.upper < it.measured)
    }
}
