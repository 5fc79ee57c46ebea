//! The loss with many parts that ran out of memory, and with none.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use plimsoll_monitor::{History, loss_comparison};
use plimsoll_types::{Event, StepDone};
use serde_json::{Value, json};

use crate::audit::{Audit, audit};
use crate::log::RunLog;
use crate::plan::Plan;
use crate::references::{SLACK, undisturbed};
use crate::setting::{Mode, Setting, Size};
use crate::subject::Subject;
use crate::weights::Weights;
use crate::{Failed, Place, round};

/// Parts that are made to run out of memory.
const OOMS: u64 = 100;
/// Samples of a micro-batch: up to four run other kernels on a CPU, some three times slower, so halves have more.
const MICRO_BATCH: u32 = 16;
/// Micro-batches of the run, halves included.
const PARTS: u64 = 700;
/// Failures after which the halves' kernels are warm.
const COLD: usize = 3;

/// What the runs showed.
#[derive(Debug)]
pub(crate) struct Picture {
    ooms: usize,
    /// Distance of the final weights.
    distance: f64,
    /// The most that it may be: so many times what halves all along make of a run of this size.
    tolerance: f64,
    /// The median time of a step that ran out of memory once, over that of a step that did not.
    recovery: f64,
    /// The same for the slowest of them.
    slowest: f64,
}

/// Runs all three, and draws `chaos.svg`.
pub(crate) fn make(place: &Place, out: &Path) -> Result<Picture, Failed> {
    println!("\nthree longer runs, one of them with {OOMS} micro-batches that run out of memory");
    let mode = Mode::Fixed(MICRO_BATCH);
    let setting = Setting { subject: Subject::Sr, mode, seed: 0, size: Size::Timed, keeps_copy: false };
    let calm = undisturbed(place, setting)?;
    let halved = undisturbed(place, Setting { mode: Mode::Fixed(MICRO_BATCH / 2), ..setting })?;
    let tolerance = SLACK * halved.weights.distance(&calm.weights);
    let folder = place.work.join("picture");
    let course = round::run(place, &Plan::of_ooms(setting, OOMS, PARTS), &folder)?;
    if let Some(trouble) = course.trouble {
        return Err(format!("train with {OOMS} micro-batches that run out of memory: {trouble}").into());
    }
    let log = RunLog::of_run(&course.run)?;
    let audit = audit(&log, &calm.log);
    if audit != Audit::default() {
        return Err(format!("keep the samples of the picture's run: {audit:?}").into());
    }
    let failures = failures(&log);
    let ooms = failures.values().sum::<usize>();
    let plot = loss_comparison(&History::of(&calm.log.events), &History::of(&log.events));
    fs::write(out.join("chaos.svg"), plot.svg)?;
    let distance = Weights::of_run(&course.run)?.distance(&calm.weights);
    let (recovery, slowest) = recovery(&log, &failures);
    fs::remove_dir_all(&folder)?;
    Ok(Picture { ooms, distance, tolerance, recovery, slowest })
}

/// Counts the failures of each step.
fn failures(log: &RunLog) -> BTreeMap<u64, usize> {
    let mut failures = BTreeMap::new();
    for event in &log.events {
        if let Event::StepFailed(failed) = event {
            *failures.entry(failed.step).or_default() += 1;
        }
    }
    failures
}

fn recovery(log: &RunLog, failures: &BTreeMap<u64, usize>) -> (f64, f64) {
    let seconds = |of: &dyn Fn(&StepDone) -> bool| -> Vec<f64> {
        let mut seconds: Vec<_> = log.steps().filter(|it| of(it)).map(|it| it.seconds).collect();
        seconds.sort_by(f64::total_cmp);
        seconds
    };
    let most = log.steps().map(StepDone::n_samples).max();
    let is_whole = |it: &StepDone| Some(it.n_samples()) == most;
    let warm = failures.keys().nth(COLD).copied().unwrap_or(u64::MAX);
    let ordinary = seconds(&|it| is_whole(it) && !failures.contains_key(&it.step));
    let failed = seconds(&|it| is_whole(it) && warm <= it.step && failures.get(&it.step) == Some(&1));
    let middle = |of: &[f64]| of.get(of.len() / 2).copied().unwrap_or(f64::NAN);
    let slowest = failed.last().copied().unwrap_or(f64::NAN);
    (middle(&failed) / middle(&ordinary), slowest / middle(&ordinary))
}

impl Picture {
    /// Whether its weights are those of the undisturbed run but for rounding.
    pub(crate) fn is_clean(&self) -> bool {
        self.distance <= self.tolerance
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "out_of_memory": self.ooms,
            "distance_of_weights": self.distance,
            "tolerance": self.tolerance,
            "recovery_in_ordinary_steps": self.recovery,
            "slowest_recovery_in_ordinary_steps": self.slowest,
        })
    }

    pub(crate) fn rows(&self, row: &mut impl FnMut(&str, String)) {
        row("micro-batches out of memory in the picture's run", self.ooms.to_string());
        let judged = if self.is_clean() { "" } else { ": too much" };
        let tolerance = format!("{:.1e}, {SLACK} times what halves all along make", self.tolerance);
        row("distance of its weights", format!("{:.1e}, at most {tolerance}{judged}", self.distance));
        let shown = format!("{:.2} ordinary steps, median; {:.2} at most", self.recovery, self.slowest);
        row("a step that ran out of memory once", shown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_that_differ_by_more_than_halves_make_are_told() {
        let of = |distance| Picture { ooms: 100, distance, tolerance: 0.02, recovery: 1.0, slowest: 1.5 };
        let told = |picture: &Picture| {
            let mut rows = Vec::new();
            picture.rows(&mut |name, value| rows.push(format!("{name}: {value}")));
            rows.join("\n")
        };
        assert!(of(0.02).is_clean() && told(&of(0.02)).contains("at most 2.0e-2, 10 times what halves"));
        for distance in [0.021, f64::INFINITY, f64::NAN] {
            assert!(!of(distance).is_clean() && told(&of(distance)).contains("make: too much"), "{distance}");
        }
    }
}
