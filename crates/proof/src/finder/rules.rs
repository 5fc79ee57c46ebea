//! The search rules of other tools, from their public descriptions.

use plimsoll_types::Bytes;

use super::oracle::{Oracle, Outcome};
use super::own;

/// A way to search for a batch size.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Name of the tool or rule.
    pub name: &'static str,
    /// What the rule learns from a trial: `fits-or-not`, `measured`, or `dry run` beside that.
    pub oracle: &'static str,
    /// Returns the batch that the rule would train with, or 0 when it finds none.
    pub search: fn(&mut Oracle<'_>) -> u32,
}

/// All rules, ours first.
pub const RULES: [Rule; 11] = [
    Rule { name: "plimsoll-planned", oracle: "dry run", search: own::planned },
    Rule { name: "plimsoll-probed", oracle: "measured", search: own::probed },
    Rule { name: "lightning-power", oracle: FITS, search: power },
    Rule { name: "lightning-binsearch", oracle: FITS, search: binsearch },
    Rule { name: "accelerate-0.9", oracle: FITS, search: |oracle| nine_tenths(oracle, ACCELERATE_START) },
    Rule { name: "accelerate-0.9-from-max", oracle: FITS, search: |oracle| nine_tenths(oracle, u32::MAX) },
    Rule { name: "accelerate-halving", oracle: FITS, search: |oracle| halving(oracle, ACCELERATE_START) },
    Rule { name: "composer-halving", oracle: FITS, search: |oracle| halving(oracle, u32::MAX) },
    Rule { name: "oomptimizer", oracle: FITS, search: oomptimizer },
    Rule { name: "ultralytics-autobatch", oracle: "measured", search: autobatch },
    Rule { name: "bisection", oracle: FITS, search: bisection },
];

const FITS: &str = "fits-or-not";

/// The default `starting_batch_size` of accelerate's `find_executable_batch_size`.
const ACCELERATE_START: u32 = 128;

/// The default start of `OOMptimizer`.
const OOMPTIMIZER_START: u32 = 32;

/// The default relative gap at which `OOMptimizer` stops.
const OOMPTIMIZER_GAP: f64 = 0.05;

/// Lightning's `BatchSizeFinder` with `mode="power"`: double from 2 until out of memory, then take the half of that,
/// which is not run again.
fn power(oracle: &mut Oracle<'_>) -> u32 {
    let (mut batch, most) = (2, oracle.setting().batch_max);
    while oracle.fits(batch) {
        if most < 2 * batch {
            return batch;
        }
        batch *= 2;
    }
    batch / 2
}

/// Lightning's `BatchSizeFinder` with `mode="binsearch"`: double from 2 until out of memory, then bisect down to a gap
/// of 1. Its margin of 5 % is not taken off here.
fn binsearch(oracle: &mut Oracle<'_>) -> u32 {
    double_then_bisect(oracle, 2, |fitted, failed| failed - fitted <= 1)
}

/// `NeMo`'s `OOMptimizer`: double from 32 until out of memory, then bisect until the gap is at most 5 % of the batch
/// that failed.
fn oomptimizer(oracle: &mut Oracle<'_>) -> u32 {
    let is_near = |fitted, failed| {
        let gap: u32 = failed - fitted;
        gap <= 1 || f64::from(gap) / f64::from(failed) <= OOMPTIMIZER_GAP
    };
    double_then_bisect(oracle, OOMPTIMIZER_START, is_near)
}

/// accelerate's `find_executable_batch_size` since 2025: nine tenths, rounded down, after each failure.
fn nine_tenths(oracle: &mut Oracle<'_>, start: u32) -> u32 {
    shrink(oracle, start, |batch| u32::try_from(u64::from(batch) * 9 / 10).unwrap_or(u32::MAX))
}

/// Composer's `device_train_microbatch_size="auto"`, which starts with the whole batch of the loader, and accelerate's
/// `find_executable_batch_size` before 2025: half after each failure.
fn halving(oracle: &mut Oracle<'_>, start: u32) -> u32 {
    shrink(oracle, start, |batch| batch / 2)
}

/// Ultralytics' `AutoBatch` (`ultralytics/utils/autobatch.py` of 2025): one step of each of a few small batches, a line
/// through the logarithms of batches and peaks, and the batch at which it reaches the memory; the last batch that ran where it
/// is beyond one that did not, and a default where there is no such line. The 40 % of the memory that it leaves by default are
/// not taken off here.
fn autobatch(oracle: &mut Oracle<'_>) -> u32 {
    let budget = oracle.setting().budget;
    let few = if budget < AUTOBATCH_LARGE { 5 } else { AUTOBATCH_TRIALS.len() };
    let (mut line, mut before, mut failed) = (Vec::new(), None, None);
    for batch in &AUTOBATCH_TRIALS[..few] {
        let peak = match oracle.step(*batch) {
            Outcome::Fitted(reading) => Some(reading.peak),
            Outcome::OutOfMemory => None,
        };
        if let Some(peak) = peak.filter(|it| before.is_none_or(|before| before < *it)) {
            line.push((f64::from(*batch).ln(), peak.as_f64().ln()));
        }
        failed = failed.or(peak.is_none().then_some(*batch));
        before = peak;
    }
    let reached = at_height(&line, budget.as_f64().ln()).map_or(0.0, |it| it.exp().round());
    let reached = match failed {
        Some(failed) if f64::from(failed) <= reached => f64::from((failed / 2).max(1)),
        _ => reached,
    };
    let is_sane = (1.0..=AUTOBATCH_MOST).contains(&reached);
    (1..=oracle.setting().batch_max)
        .take_while(|it| is_sane && f64::from(*it) <= reached)
        .last()
        .unwrap_or(AUTOBATCH_DEFAULT)
}

/// Batches that `AutoBatch` runs, the first five of them on devices of less than this.
const AUTOBATCH_TRIALS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
const AUTOBATCH_LARGE: Bytes = Bytes::gib(16);

/// The largest batch that it believes in, and what it takes instead of others.
const AUTOBATCH_MOST: f64 = 1024.0;
const AUTOBATCH_DEFAULT: u32 = 16;

/// Returns where the line of least squares through these points reaches a height; `None` where there is none, or it is level.
fn at_height(points: &[(f64, f64)], height: f64) -> Option<f64> {
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
    let (x, y) = (mean(&|it| it.0), mean(&|it| it.1));
    let slope = mean(&|it| (it.0 - x) * (it.1 - y)) / mean(&|it| (it.0 - x).powi(2));
    Some(x + (height - y) / slope).filter(|it| it.is_finite())
}

/// Bisection of the whole range.
fn bisection(oracle: &mut Oracle<'_>) -> u32 {
    let end = oracle.setting().batch_max + 1;
    bisect(oracle, 0, end, |fitted, failed| failed - fitted <= 1)
}

fn shrink(oracle: &mut Oracle<'_>, start: u32, next: impl Fn(u32) -> u32) -> u32 {
    let mut batch = start.min(oracle.setting().batch_max);
    while 0 < batch && !oracle.fits(batch) {
        batch = next(batch);
    }
    batch
}

fn double_then_bisect(oracle: &mut Oracle<'_>, start: u32, is_near: impl Fn(u32, u32) -> bool) -> u32 {
    let most = oracle.setting().batch_max;
    let (mut fitted, mut batch) = (0, start.min(most));
    while oracle.fits(batch) {
        if batch == most {
            return batch;
        }
        (fitted, batch) = (batch, (2 * batch).min(most));
    }
    bisect(oracle, fitted, batch, is_near)
}

/// Halves the range between a batch that fits and one that does not until they are near.
fn bisect(oracle: &mut Oracle<'_>, mut fitted: u32, mut failed: u32, is_near: impl Fn(u32, u32) -> bool) -> u32 {
    while !is_near(fitted, failed) {
        let middle = u32::midpoint(fitted, failed);
        if oracle.fits(middle) {
            fitted = middle;
        } else {
            failed = middle;
        }
    }
    fitted
}

#[cfg(test)]
mod tests {
    use plimsoll_predict::Booked;
    use plimsoll_types::{Bytes, Fraction};

    use super::*;
    use crate::finder::{Outcome, Reading, Setting, Tally};

    /// Searches on a device without noise and pages on which a batch needs 100 bytes, 20 more, and 4 per sample.
    fn run(name: &str, best: u32) -> (u32, Tally) {
        let need = |batch: u32| Bytes(120 + 4 * u64::from(batch));
        let setting = Setting { budget: need(best), edge: 8, batch_max: 2048, noise: Fraction::ZERO };
        let mut step = |batch: u32| match need(batch) {
            peak if peak <= setting.budget => Outcome::Fitted(Reading { resident: Bytes(100), peak, pool: None }),
            _ => Outcome::OutOfMemory,
        };
        let plan = |batch| Some(Booked { reserved: need(batch), ..Booked::default() });
        let mut oracle = Oracle::new(setting, &mut step, &plan);
        let rule = RULES.iter().find(|it| it.name == name).unwrap();
        ((rule.search)(&mut oracle), oracle.tally())
    }

    #[track_caller]
    fn check(name: &str, best: u32, answer: u32, trials: u32, ooms: u32) {
        assert_eq!(run(name, best), (answer, Tally { trials, ooms }), "{name}");
    }

    #[test]
    fn power_doubles_from_two_and_fails_once() {
        check("lightning-power", 300, 256, 9, 1);
        check("lightning-power", 256, 256, 9, 1);
        check("lightning-power", 5000, 2048, 11, 0);
        check("lightning-power", 1, 1, 1, 1);
    }

    #[test]
    fn binsearch_finds_the_best_batch_one_bit_at_a_time() {
        // 2 to 512, then the eight bits between 256 and 512: 300 - 256 = 0b0010_1100.
        check("lightning-binsearch", 300, 300, 9 + 8, 1 + 5);
        check("lightning-binsearch", 2047, 2047, 11 + 10, 1);
    }

    #[test]
    fn accelerate_only_shrinks_from_its_start() {
        check("accelerate-0.9", 300, 128, 1, 0);
        // 128, 115, 103, 92, 82
        check("accelerate-0.9", 90, 82, 5, 4);
        check("accelerate-halving", 90, 64, 2, 1);
        check("accelerate-halving", 0, 0, 8, 8);
        // 2048, 1843, 1658, .., 338, 304, 273
        check("accelerate-0.9-from-max", 300, 273, 20, 19);
    }

    #[test]
    fn composer_halves_the_whole_batch() {
        check("composer-halving", 300, 256, 4, 3);
        check("composer-halving", 64, 64, 6, 5);
    }

    #[test]
    fn oomptimizer_stops_at_a_gap_of_five_per_cent() {
        // 32, 64, 128, 256, 512, 384, 320, 288, 304: 304 failed, 288 fitted, and 16 is more than 5 % of 304; 296.
        check("oomptimizer", 300, 296, 10, 4);
        // 32, 16, 24, 20, 22, 21
        check("oomptimizer", 20, 20, 6, 4);
    }

    #[test]
    fn bisection_takes_the_bits_of_the_range() {
        check("bisection", 300, 300, 11, 7);
        check("bisection", 5000, 2048, 12, 0);
        check("bisection", 0, 0, 11, 11);
    }

    #[test]
    fn autobatch_believes_its_line_unless_that_is_far_off() {
        // What does not grow with the batch bends the line: from 16 samples it goes to 36 million, 502 and 7.
        check("ultralytics-autobatch", 300, 16, 5, 0);
        check("ultralytics-autobatch", 40, 502, 5, 0);
        check("ultralytics-autobatch", 5, 7, 5, 2);
        check("ultralytics-autobatch", 0, 16, 5, 5);
    }

    #[test]
    fn ours_come_from_below() {
        check("plimsoll-planned", 300, 300, 2, 0);
        check("plimsoll-probed", 300, 299, 3, 0);
    }
}
