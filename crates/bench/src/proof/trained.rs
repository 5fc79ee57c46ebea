//! What a training by the product itself came to.

use std::fmt;

use plimsoll_types::{Bytes, Event, Recompute, StepDone};
use serde::Serialize;

/// What `plimsoll train` came to, as its log tells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrainedRow {
    /// What was trained, and with which settings.
    pub what: String,
    /// Optimizer steps.
    pub steps: usize,
    /// The highest of their peaks.
    pub peak: Bytes,
    /// The largest share of its budget that a step took.
    pub budget_share: f64,
    /// Steps that took more than their capacity.
    pub above_capacity: usize,
    /// Steps that took more than their upper bound.
    pub above_bound: usize,
    /// Parts that ran out of memory, and ran again in halves.
    pub failures: usize,
    /// The least and the most that there was.
    pub capacities: (Bytes, Bytes),
    /// The share of samples whose activations were recomputed.
    pub recomputed: f64,
    /// Samples a second of the steps in the second half.
    pub samples_per_second: f64,
    /// Whether every loss and every norm was finite.
    pub is_finite: bool,
}

impl TrainedRow {
    /// The head of the table.
    pub const HEAD: &str = "| run | steps | peak | of the budget | above capacity | above bound | failures | capacity | \
                            recomputed | samples/s | finite |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- \
                            | --- |";

    /// Sums up a log; none without a step.
    pub fn new(what: &str, events: &[Event]) -> Option<Self> {
        let (mut steps, mut samples, mut failures) = (Vec::<&StepDone>::new(), [0_usize; 2], 0);
        let mut recompute = Recompute::NEVER;
        for event in events {
            match event {
                Event::GradientCheckpointing(it) => recompute = it.recompute,
                Event::StepFailed(_) => failures += 1,
                Event::StepDone(done) => {
                    for part in &done.micro_batches {
                        samples[usize::from(recompute.is_on(part.shape().edge()))] += part.ids.len();
                    }
                    steps.push(done);
                }
                _ => (),
            }
        }
        let capacities = steps.iter().map(|it| it.capacity);
        let later = &steps[steps.len() / 2..];
        let seconds: f64 = later.iter().map(|it| it.seconds).sum();
        Some(Self {
            what: what.to_owned(),
            steps: steps.len(),
            peak: steps.iter().map(|it| it.peak).max()?,
            budget_share: steps.iter().map(|it| it.peak.0 as f64 / it.budget.0 as f64).fold(0.0, f64::max),
            above_capacity: steps.iter().filter(|it| it.capacity < it.peak).count(),
            above_bound: steps.iter().filter(|it| it.upper.is_some_and(|upper| upper < it.peak)).count(),
            failures,
            capacities: (capacities.clone().min()?, capacities.max()?),
            recomputed: samples[1] as f64 / (samples[0] + samples[1]) as f64,
            samples_per_second: later.iter().map(|it| it.n_samples()).sum::<u64>() as f64 / seconds,
            is_finite: steps.iter().all(|it| it.loss.is_finite() && it.gradient_norm.is_finite()),
        })
    }
}

impl fmt::Display for TrainedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, most) = self.capacities;
        let capacity = if least == most { least.to_string() } else { format!("{least} to {most}") };
        write!(
            f,
            "| {} | {} | {} | {:.0} % | {} | {} | {} | {capacity} | {:.0} % | {:.1} | {} |",
            self.what,
            self.steps,
            self.peak,
            self.budget_share * 100.0,
            self.above_capacity,
            self.above_bound,
            self.failures,
            self.recomputed * 100.0,
            self.samples_per_second,
            if self.is_finite { "yes" } else { "no" },
        )
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_types::{Knobs, MicroBatch};

    use super::*;

    fn done(step: u64, peak: u64, capacity: u64) -> Event {
        Event::StepDone(StepDone {
            step,
            epoch: 0,
            rung: Knobs { patch_size: 16, micro_batch_size: 2 },
            micro_batches: vec![MicroBatch::new(vec![1, 2], 16)],
            predicted: None,
            upper: Some(Bytes::mib(9)),
            resident: Bytes::ZERO,
            in_use: Bytes::ZERO,
            reserved: Bytes::ZERO,
            peak: Bytes::mib(peak),
            capacity: Bytes::mib(capacity),
            budget: Bytes::mib(capacity - 2),
            skipped: Vec::new(),
            tasks: Vec::new(),
            loss: if step == 3 { f64::NAN } else { 1.0 },
            gradient_norm: 1.0,
            learning_rate: 0.1,
            seconds: 0.5,
            waited_seconds: None,
            committed: true,
        })
    }

    #[test]
    fn a_row_counts_what_passed_the_line_and_says_what_there_was() {
        assert_eq!(TrainedRow::new("sr", &[]), None);
        let row = TrainedRow::new("sr", &[done(0, 8, 12), done(1, 11, 10), done(2, 5, 12)]).unwrap();
        assert_eq!(
            row.to_string(),
            "| sr | 3 | 11.00 MiB | 138 % | 1 | 1 | 0 | 10.00 MiB to 12.00 MiB | 0 % | 4.0 | yes |"
        );
        let other = TrainedRow::new("sr", &[done(3, 8, 12)]).unwrap();
        assert!(!other.is_finite && other.above_capacity == 0 && other.above_bound == 0);
    }
}
