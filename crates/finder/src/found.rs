//! The answer of a search.

use std::fmt;

use plimsoll_types::Bytes;
use serde::{Deserialize, Serialize};

use crate::trials::Trials;

/// The answer of a search, with what the trials measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The batch to use: `largest`, less the configured reduction unless it is the largest that is allowed and leaves as
    /// much of the budget.
    pub batch: u32,
    /// The largest batch that was found to fit.
    pub largest: u32,
    /// What `largest` was measured to need, or an upper bound of that where it was not tried.
    pub upper: Bytes,
    /// Whether `upper` was measured.
    pub is_measured: bool,
    /// What a step may use.
    pub budget: Bytes,
    /// Bytes in use before the first trial.
    pub start: Bytes,
    /// The highest peak of all trials.
    pub peak: Bytes,
    /// Bytes in use before the last trial; more than `start` is what the trials left behind.
    pub current: Bytes,
    /// What one more sample adds to the peak, from the smallest to the largest batch of one path; where these do not
    /// tell, the need of the largest shared among its samples.
    pub per_sample: Bytes,
    /// Trials made, those that ran out of memory included.
    pub n_trials: u32,
    /// Trials that ran out of memory.
    pub n_out_of_memory: u32,
    /// Why no larger batch is the answer.
    pub limit: Limit,
}

/// Why no larger batch is the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The configured largest batch fits.
    BatchMax,
    /// A batch that is larger by 2 % or more needs more than the budget.
    Memory,
    /// The next larger batch runs other kernels, and was measured to need more than the budget.
    OtherKernels,
    /// The trials are used up.
    Trials,
    /// No bound certifies a larger batch, and a trial that fails would end the process.
    Bound,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BatchMax => "the largest batch that was allowed",
            Self::Memory => "the budget",
            Self::OtherKernels => "the budget: a larger batch runs other kernels, which need more",
            Self::Trials => "the number of real steps; a larger batch may fit",
            Self::Bound => "caution: a larger batch may fit, but no bound says so, and a failure would end the process",
        })
    }
}

/// Returns what one more sample adds to the peak of a batch of `largest` samples, from trials of one path.
pub(crate) fn per_sample(trials: &Trials, is_same_path: impl Fn(u32) -> bool) -> Bytes {
    let ran = || trials.ran.iter().filter(|it| is_same_path(it.batch));
    let (Some(low), Some(high)) = (ran().min_by_key(|it| it.batch), ran().max_by_key(|it| it.batch)) else {
        return Bytes::ZERO;
    };
    let shared = |bytes: Bytes, samples: u32| Bytes::from_f64_ceil(bytes.as_f64() / f64::from(samples));
    match high.need().saturating_sub(low.need()) {
        Bytes::ZERO => shared(high.need(), high.batch),
        more => shared(more, high.batch - low.batch),
    }
}

/// Returns a number of trials, of which nobody makes four thousand million.
pub(crate) fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trials::Trial;

    #[test]
    fn a_sample_needs_something_whatever_the_trials_were() {
        let trial = |batch, peak| Trial { batch, resident: Bytes(10), peak: Bytes(peak) };
        let check = |ran: &[Trial], bytes| {
            let trials = Trials { ran: ran.to_vec(), ..Trials::default() };
            assert_eq!(per_sample(&trials, |batch| 4 < batch), Bytes(bytes));
        };
        check(&[trial(5, 110)], 20);
        check(&[trial(5, 110), trial(7, 140)], 15);
        check(&[trial(5, 110), trial(10, 110)], 10);
        check(&[trial(1, 900), trial(5, 110)], 20);
    }
}
