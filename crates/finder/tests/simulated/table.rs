//! How near to the best batch the answer is, over capacities, models, and what small batches need.

use std::fmt;

use plimsoll_finder::FinderConfig;
use plimsoll_types::{Bytes, Fraction};

use crate::device::{Device, Tried};

/// In MiB.
const CAPACITIES: [u64; 14] = [8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128];

/// By what small batches multiply the need.
const SMALL: [f64; 9] = [0.25, 1.0 / 3.0, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0];

/// A model, in KiB, and KiB a sample.
struct Model {
    name: &'static str,
    resident: u64,
    /// The instants of a step.
    instants: &'static [(u64, u64)],
}

const fn model(name: &'static str, resident: u64, instants: &'static [(u64, u64)]) -> Model {
    Model { name, resident, instants }
}

/// The first is a super-resolution model of 8 channels on Flex as measured on a processor with 2 MiB of L2 per core, whose
/// packing buffers take more than ten samples.
const MODELS: [Model; 9] = [
    model("convolutions, wide packing buffers", 60, &[(4400, 380)]),
    model("convolutions, narrow packing buffers", 60, &[(600, 380)]),
    model("deep convolutions", 900, &[(2500, 1100)]),
    model("attention, then a head", 2000, &[(2500, 150), (400, 310)]),
    model("a large optimizer", 3000, &[(4000, 25), (1000, 60)]),
    model("nothing but activations", 10, &[(0, 700)]),
    model("large images", 300, &[(1500, 3000)]),
    model("large images, large workspaces", 300, &[(5500, 900), (100, 1900)]),
    model("three instants", 100, &[(5000, 10), (3000, 200), (500, 330)]),
];

/// What searches made of one model at one capacity, over all that small batches may need.
struct Row {
    model: &'static str,
    capacity: Bytes,
    /// The least share of the best batch, where one fits.
    share: f64,
    n_trials: Vec<usize>,
    n_above_budget: usize,
    n_out_of_memory: usize,
}

#[test]
fn the_answer_is_near_the_best_at_every_capacity_whatever_small_batches_need() {
    let rows: Vec<_> = MODELS.iter().flat_map(|model| CAPACITIES.map(|it| row(model, Bytes::mib(it)))).collect();
    let mut all: Vec<_> = rows.iter().flat_map(|it| it.n_trials.iter().copied()).collect();
    all.sort_unstable();
    let at = |part: usize| all[(all.len() - 1) * part / 4];
    let head = ["model", "capacity", "share", "real steps", "above budget", "out of memory"];
    let head =
        format!("{:<38} {:>10} {:>8} {:>12} {:>13} {:>14}", head[0], head[1], head[2], head[3], head[4], head[5]);
    let lines: Vec<_> = std::iter::once(head).chain(rows.iter().map(ToString::to_string)).collect();
    let n = all.len();
    let last = format!("{n} searches: real steps {} in the median, {} in 3 of 4, {} at most", at(2), at(3), at(4));
    insta::assert_snapshot!(lines.join("\n") + "\n" + &last);
    assert!(rows.iter().all(|it| 0.94 <= it.share));
    assert!(at(2) <= 3 && at(3) <= 4 && at(4) <= 6);
}

fn row(model: &Model, capacity: Bytes) -> Row {
    let instants: Vec<_> = model.instants.iter().map(|(constant, slope)| (constant << 10, slope << 10)).collect();
    let (model, resident) = (model.name, model.resident << 10);
    let mut row = Row { model, capacity, share: 1.0, n_trials: vec![], n_above_budget: 0, n_out_of_memory: 0 };
    for (small, tells) in SMALL.into_iter().flat_map(|small| [(small, false), (small, true)]) {
        row.add(&Device { resident, instants: instants.clone(), small_batch: 4, small, capacity, tells });
    }
    row.n_trials.sort_unstable();
    row
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, capacity, share, n_trials, n_above_budget, n_out_of_memory } = self;
        let (capacity, share) = (capacity.to_string(), 100.0 * share);
        let steps = n_trials.first().zip(n_trials.last()).map_or(String::new(), |(a, b)| format!("{a} to {b}"));
        write!(f, "{model:<38} {capacity:>10} {share:>6.1} % {steps:>12} {n_above_budget:>13} {n_out_of_memory:>14}")
    }
}

impl Row {
    fn add(&mut self, device: &Device) {
        let config = FinderConfig { survives: true, batch_reduction: Fraction::ZERO, ..FinderConfig::default() };
        let budget = device.capacity.scale(config.target);
        let (tried, found) = device.search(&config);
        let above = |limit| tried.iter().filter(|it: &&Tried| limit < it.peak).count();
        let (best, n_out_of_memory) = (device.best(&config), above(device.capacity));
        assert_eq!(found.is_ok(), 0 < best, "{device:?}");
        if let Ok(found) = found {
            assert!(device.peak(found.largest) <= found.upper && found.upper <= budget, "{device:?}, {found:?}");
            assert!(n_out_of_memory <= 2 && n_out_of_memory == found.n_out_of_memory as usize, "{device:?}, {tried:?}");
            self.share = self.share.min(f64::from(found.largest) / f64::from(best));
            self.n_trials.push(tried.len());
            self.n_above_budget = self.n_above_budget.max(above(budget));
            self.n_out_of_memory = self.n_out_of_memory.max(n_out_of_memory);
        }
        // What had a bound kept to it.
        assert!(tried.iter().all(|it| it.upper.is_none_or(|upper| it.peak <= upper)), "{device:?}, {tried:?}");
    }
}
