//! What a whole run of the product did, read from its log.

use std::collections::BTreeMap;

use plimsoll_types::{Bytes, Event, Recompute, StepDone};
use serde::{Deserialize, Serialize};

use crate::median::median;

/// A run of `plimsoll train`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProductRun {
    /// The job.
    pub job: String,
    /// What is special about the run.
    pub what: String,
    /// Steps that were asked for.
    pub asked: u64,
    /// Steps that the optimizer took.
    pub steps: usize,
    /// The least and the last budget of a step.
    pub budgets: [Bytes; 2],
    /// The most that a step reached.
    pub peak: Bytes,
    /// The largest part of its budget that a step used.
    pub used: f64,
    /// Steps, and parts of steps, that were above their bound.
    pub above_bound: usize,
    /// Attempts that ran out of memory.
    pub failures: usize,
    /// Whether every loss and every gradient norm is a number.
    pub is_finite: bool,
    /// Samples of all steps.
    pub samples: usize,
    /// Samples that came more than once in an epoch.
    pub repeated: usize,
    /// Samples that an epoch which is over did without.
    pub lost: u64,
    /// The part of the steps in which activations were recomputed.
    pub recomputed: f64,
    /// The median of the steps' wall times in seconds.
    pub step_seconds: f64,
    /// Wall time of the program in seconds.
    pub seconds: f64,
}

/// What is read of the settings in the head of a log.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Settings {
    recompute: Recompute,
}

impl ProductRun {
    /// Reads a log.
    pub fn of(job: &str, what: &str, events: &[Event], seconds: f64) -> Self {
        let mut run = Self { job: job.into(), what: what.into(), is_finite: true, seconds, ..Self::default() };
        let (mut recompute, mut recomputed, mut times) = (Recompute::NEVER, 0, Vec::new());
        let mut taken = BTreeMap::<(u64, u64), usize>::new();
        for event in events {
            match event {
                Event::RunStarted(it) => {
                    run.asked = it.n_steps;
                    recompute = serde_json::from_str::<Settings>(&it.controller).unwrap_or_default().recompute;
                }
                Event::GradientCheckpointing(it) => recompute = it.recompute,
                Event::StepFailed(_) => run.failures += 1,
                Event::BoundExceeded(_) => run.above_bound += 1,
                Event::EpochDone(it) => {
                    let distinct = taken.range((it.epoch, 0)..=(it.epoch, u64::MAX)).count() as u64;
                    run.lost += it.samples.saturating_sub(distinct);
                }
                Event::StepDone(step) => {
                    run.add(step);
                    step.micro_batches.iter().flat_map(|it| &it.ids).chain(&step.skipped).for_each(|id| {
                        *taken.entry((step.epoch, *id)).or_default() += 1;
                    });
                    recomputed += usize::from(step.micro_batches.iter().any(|it| recompute.is_on(it.shape().edge())));
                    times.push(step.seconds);
                }
                _ => {}
            }
        }
        run.repeated = taken.values().filter(|times| 1 < **times).count();
        run.recomputed = recomputed as f64 / run.steps.max(1) as f64;
        Self { step_seconds: median(&times), ..run }
    }

    fn add(&mut self, step: &StepDone) {
        let least = if self.steps == 0 { step.budget } else { self.budgets[0].min(step.budget) };
        self.budgets = [least, step.budget];
        self.steps += usize::from(step.committed);
        self.samples += step.micro_batches.iter().map(|it| it.ids.len()).sum::<usize>();
        self.peak = self.peak.max(step.peak);
        self.used = self.used.max(step.peak.share_of(step.budget));
        self.is_finite &= step.loss.is_finite() && step.gradient_norm.is_finite();
    }

    /// Whether the run took all its steps, each sample once, and its weights stayed numbers.
    pub fn is_whole(&self) -> bool {
        self.steps as u64 == self.asked && self.is_finite && self.repeated == 0 && self.lost == 0
    }

    /// Returns the cells of a table, under [`Self::HEAD`].
    pub(crate) fn cells(&self) -> Vec<String> {
        let percent = |it: f64| format!("{:.1} %", 100.0 * it);
        let [tightest, last] = self.budgets;
        vec![
            self.job.clone(),
            self.what.clone(),
            format!("{} of {}", self.steps, self.asked),
            self.peak.to_string(),
            if tightest == last { last.to_string() } else { format!("{tightest}, at last {last}") },
            percent(self.used),
            self.above_bound.to_string(),
            self.failures.to_string(),
            if self.is_finite { "finite" } else { "**not finite**" }.to_owned(),
            format!("{}, {} twice, {} lost", self.samples, self.repeated, self.lost),
            percent(self.recomputed),
            format!("{:.3}", self.step_seconds),
        ]
    }

    /// The columns of a table of runs.
    pub(crate) const HEAD: [&'static str; 12] = [
        "job",
        "run",
        "steps",
        "peak",
        "budget",
        "used of it at most",
        "above the bound",
        "out of memory",
        "losses",
        "samples",
        "steps recomputed",
        "s per step",
    ];
}

#[cfg(test)]
mod tests {
    use plimsoll_types::{EpochDone, Knobs, MicroBatch};

    use super::*;
    use crate::input::step_done;

    fn step(step: u64, ids: &[u64]) -> Event {
        let done = step_done(step, Knobs { patch_size: 16, micro_batch_size: 2 });
        Event::StepDone(StepDone { epoch: 0, micro_batches: vec![MicroBatch::new(ids.to_vec(), 16)], ..done })
    }

    fn epoch_done(samples: u64) -> Event {
        Event::EpochDone(EpochDone { epoch: 0, step: 1, samples, dropped: 0 })
    }

    #[test]
    fn a_sample_that_an_epoch_did_without_is_lost_and_one_that_came_again_is_repeated() {
        let of = |events: &[Event]| ProductRun::of("sr", "", events, 1.0);
        let whole = of(&[step(0, &[0, 1]), step(1, &[2, 3]), epoch_done(4)]);
        assert_eq!((whole.samples, whole.repeated, whole.lost), (4, 0, 0));
        let bad = of(&[step(0, &[0, 1]), step(1, &[1, 3]), epoch_done(4)]);
        assert_eq!((bad.repeated, bad.lost), (1, 1));
    }

    #[test]
    fn a_loss_that_is_no_number_is_noticed() {
        let Event::StepDone(done) = step(0, &[0]) else { unreachable!() };
        let lost = Event::StepDone(StepDone { loss: f64::NAN, ..done });
        assert!(!ProductRun::of("sr", "", &[lost, step(1, &[1])], 1.0).is_finite);
    }
}
