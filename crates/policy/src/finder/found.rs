//! The answer of a search.

use plimsoll_types::Bytes;
use serde::{Deserialize, Serialize};

use super::Trial;
use super::certify::Certified;

/// The answer of a search, with what the trials measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The batch to use: `largest`, less the configured reduction.
    pub batch: u32,
    /// The largest batch that was certified.
    pub largest: u32,
    /// Upper bound of the peak of `largest`.
    pub upper: Bytes,
    /// What a step may use.
    pub budget: Bytes,
    /// Bytes in use before the first trial.
    pub start: Bytes,
    /// The highest peak of all trials.
    pub peak: Bytes,
    /// Bytes in use before the last trial; more than `start` is what the trials left behind.
    pub current: Bytes,
    /// What one more sample adds to the peak, from the smallest to the largest batch that ran; with one trial, its need
    /// shared among its samples.
    pub per_sample: Bytes,
    /// Trials made, those that ran out of memory included.
    pub n_trials: u32,
    /// Trials that ran out of memory.
    pub n_out_of_memory: u32,
    /// Dry runs asked for.
    pub n_plans: u32,
    /// Why the search ended.
    pub stop: Stop,
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// No larger batch than the largest that was tried is certified.
    NothingToGain,
    /// The trials are used up.
    TrialsUsed,
    /// No bound is known, or none fits: the answer is the largest batch that ran.
    NothingCertified,
    /// A trial ran out of memory although its bound fitted: the answer is the largest batch that ran.
    OutOfMemory,
}

impl Found {
    /// Sums up trials that ran; what else a finder knows is left at zero.
    pub(crate) fn new(largest: Certified, trials: &[Trial], stop: Stop) -> Self {
        Self {
            batch: largest.batch,
            largest: largest.batch,
            upper: largest.upper,
            budget: Bytes::ZERO,
            start: trials.first().map(|it| it.resident).unwrap_or_default(),
            peak: trials.iter().map(|it| it.peak).max().unwrap_or_default(),
            current: trials.last().map(|it| it.resident).unwrap_or_default(),
            per_sample: per_sample(trials).unwrap_or_default(),
            n_trials: count(trials.len()),
            n_out_of_memory: 0,
            n_plans: 0,
            stop,
        }
    }
}

fn per_sample(trials: &[Trial]) -> Option<Bytes> {
    let low = trials.iter().min_by_key(|it| it.batch)?;
    let high = trials.iter().max_by_key(|it| it.batch)?;
    let (bytes, samples) = match high.batch - low.batch {
        0 => (high.peak.saturating_sub(high.resident), high.batch),
        samples => (high.peak.saturating_sub(low.peak), samples),
    };
    Some(Bytes::from_f64_ceil(bytes.as_f64() / f64::from(samples)))
}

/// Returns a number of trials or plans, of which nobody makes four thousand million.
pub(crate) fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
