//! What came of each rank of a run.

use plimsoll_types::{Bytes, Phase};
use serde::{Deserialize, Serialize};

use crate::history::History;
use crate::table::size;
use crate::text::{counted, percent};
use crate::work::Work;

/// What one of several ranks did, and its own memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankReport {
    /// Which of them, from 0.
    pub rank: u32,
    /// Its device.
    pub device: Option<String>,
    /// Samples that it ran of the committed steps.
    pub samples: u64,
    /// What of its work was real, where samples are padded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// What it did for these steps, in seconds.
    pub seconds: f64,
    /// How long it waited beside that for the other ranks, and added what all had made.
    pub waited_seconds: f64,
    /// Its budget at the end.
    pub budget_bytes: Option<Bytes>,
    /// The highest mark of a step.
    pub peak_bytes: Option<Bytes>,
    /// Median of peak over budget in the committed steps after its last adjustment.
    pub steady_budget_share: Option<f64>,
    /// Parts that ran out of memory.
    pub failures: u64,
    /// Micro-batches that reached more than their upper bound.
    pub bounds_exceeded: u64,
}

impl RankReport {
    /// Sums up what a rank has logged.
    pub fn new(rank: u32, history: &History) -> Self {
        Self {
            rank,
            device: history.start.as_ref().map(|it| it.device.clone()),
            samples: history.counts.samples,
            work: history.work.work(),
            seconds: history.seconds.committed_steps - history.seconds.waited,
            waited_seconds: history.seconds.waited,
            budget_bytes: history.last.as_ref().map(|it| it.budget),
            peak_bytes: history.peaks.of_steps(),
            steady_budget_share: history.tail.shares.value(),
            failures: history.incidents.failures.len() as u64,
            bounds_exceeded: history.n_excesses(Phase::Train),
        }
    }

    /// Writes it in one line.
    pub(crate) fn line(&self) -> String {
        let share = self.steady_budget_share.map_or(String::new(), |it| format!(" ({})", percent(it)));
        let problems = [
            (self.failures, counted(self.failures, "failure")),
            (self.bounds_exceeded, counted(self.bounds_exceeded, "peak") + " above the bound"),
        ];
        let told = problems.into_iter().filter(|it| 0 < it.0).map(|it| format!(", {}", it.1));
        let (peak, budget) = (size(self.peak_bytes), size(self.budget_bytes));
        let times =
            format!("{} samples in {:.1} s and {:.1} s of waiting", self.samples, self.seconds, self.waited_seconds);
        format!("{times}, peak {peak} of {budget}{share}{}", told.collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_types::{Event, Knobs, MicroBatch, StepDone};

    use super::*;

    #[test]
    fn a_line_tells_a_ranks_own_memory() {
        let done = |step| {
            Event::StepDone(StepDone {
                step,
                epoch: 0,
                rung: Knobs { patch_size: 16, micro_batch_size: 3 },
                micro_batches: vec![MicroBatch::new(vec![1, 2, 3], 16)],
                real_positions: None,
                predicted: None,
                upper: None,
                resident: Bytes::ZERO,
                in_use: Bytes::ZERO,
                reserved: Bytes::ZERO,
                peak: Bytes::mib(9),
                page: Bytes::ZERO,
                packed: Bytes::ZERO,
                capacity: Bytes::mib(12),
                budget: Bytes::mib(10),
                skipped: Vec::new(),
                tasks: Vec::new(),
                loss: 1.0,
                gradient_norm: 1.0,
                learning_rate: 0.1,
                seconds: 1.0,
                waited_seconds: Some(0.25),
                supply: None,
                committed: true,
            })
        };
        let report = RankReport::new(1, &History::of(&[done(0), done(1)]));
        assert_eq!(report.line(), "6 samples in 1.5 s and 0.5 s of waiting, peak 9.00 MiB of 10.00 MiB (90 %)");
        let unused = RankReport::new(1, &History::default());
        assert_eq!(unused.line(), "0 samples in 0.0 s and 0.0 s of waiting, peak – of –");
        let failed = RankReport { failures: 2, ..report };
        assert_eq!(
            failed.line(),
            "6 samples in 1.5 s and 0.5 s of waiting, peak 9.00 MiB of 10.00 MiB (90 %), 2 failures"
        );
    }
}
