//! A run of mixed shapes.

use plimsoll_types::{Bytes, StepShape};
use serde::{Deserialize, Serialize};

use super::Edges;
use crate::finder::Random;

/// What a run of mixed shapes was planned to hold, and what it held.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MixedRow {
    /// The reference job.
    pub job: String,
    /// The device.
    pub device: String,
    /// Whether activations are recomputed in the backward pass.
    pub checkpointing: bool,
    /// Whether the step with the largest allocation ran before all others.
    pub largest_first: bool,
    /// Optimizer steps.
    pub n_steps: usize,
    /// The most that the run was planned to hold.
    pub planned_high_water: Bytes,
    /// The most that it held.
    pub measured_high_water: Bytes,
    /// The part of `planned_high_water` in the tensors' pools; `None` without pools, as for the next two.
    pub planned_pools: Option<Bytes>,
    /// The part of `measured_high_water` in the tensors' pools.
    pub measured_pools: Option<Bytes>,
    /// Steps after which the tensors' pools held what was planned, to the byte.
    pub steps_equal: Option<usize>,
    /// How the parts compare with the bounds that were asked for before each; `None` with pools.
    pub parts: Option<PartsHeld>,
    /// Wall time of the real run in seconds.
    pub seconds: f64,
}

/// Parts of a run against their bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartsHeld {
    /// Parts that had a bound.
    pub n_bounded: usize,
    /// Those whose peak was above it.
    pub n_above: usize,
    /// The median of how far the bounds were above the peaks, as a share of these.
    pub slack_median: f64,
}

impl MixedRow {
    /// Returns how much more was planned than measured, as a share of what was measured; negative when it was less.
    pub fn error(&self) -> f64 {
        self.planned_high_water.share_of(self.measured_high_water) - 1.0
    }
}

/// Small steps, as most of a run is, so that 200 of them end on a software device within minutes.
const SMALL: ([u32; 2], [u32; 4]) = ([16, 20], [2, 3, 4, 5]);

/// Few large steps: with 16 channels, their largest tensors are of 1, 2.25 and 3 MiB, and pages are of 2 MiB at first.
const LARGE: [(u32, u32); 4] = [(16, 32), (16, 48), (9, 64), (12, 64)];

/// One step in so many is large.
const RARE: u32 = 32;

/// Most parts of a step.
const MOST_PARTS: u32 = 3;

/// Draws the parts of each step of a run: their shapes, and their order.
pub fn draw(n_steps: usize, edges: Edges, seed: u64) -> Vec<Vec<StepShape>> {
    let mut random = Random::new(seed);
    let mut pick = |from: &[u32]| from[random.multiple(1, 0, u32::try_from(from.len() - 1).unwrap_or(0)) as usize];
    let (numbers, counts): (Vec<u32>, Vec<u32>) = ((0..RARE).collect(), (1..=MOST_PARTS).collect());
    // Each of the large ones in its turn, so that a run has them all.
    let mut large = LARGE.iter().cycle();
    let mut part = |pick: &mut dyn FnMut(&[u32]) -> u32| match pick(&numbers) {
        0 => large.next().map_or(StepShape::new(0, 0), |(batch, edge)| StepShape::of(*batch, edges.of(*edge))),
        _ => StepShape::of(pick(&SMALL.1), edges.of(pick(&SMALL.0))),
    };
    (0..n_steps).map(|_| (0..pick(&counts)).map(|_| part(&mut pick)).collect()).collect()
}

/// Returns the shape with the most positions, whose activations are the largest allocations of a convolutional net.
pub fn first(drawn: &[Vec<StepShape>]) -> Option<StepShape> {
    drawn.iter().flatten().copied().max_by_key(|it| u64::from(it.samples) * u64::from(it.edge()).pow(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_mostly_small_and_its_large_steps_do_not_come_first() {
        let drawn = draw(200, Edges::Pixels, 0);
        let is_large = |it: &StepShape| LARGE.contains(&(it.samples, it.edge()));
        let n_large = drawn.iter().flatten().filter(|it| is_large(it)).count();
        assert!((4..=24).contains(&n_large), "{n_large}");
        let parts: Vec<_> = drawn.iter().flatten().copied().collect();
        assert!(LARGE.iter().all(|(n, edge)| parts.contains(&StepShape::new(*n, *edge))), "{drawn:?}");
        assert!(!is_large(&drawn[0][0]));
        assert_eq!(first(&drawn), Some(StepShape::new(12, 64)));
        assert_eq!(drawn, draw(200, Edges::Pixels, 0));
        assert_ne!(drawn, draw(200, Edges::Pixels, 1));
        for n in 1..=3 {
            assert!(drawn.iter().any(|parts| parts.len() == n));
        }
        let falls = |parts: &Vec<StepShape>| parts.is_sorted_by(|a, b| b < a) && 1 < parts.len();
        let rises = |parts: &Vec<StepShape>| parts.is_sorted_by(|a, b| a < b) && 1 < parts.len();
        assert!(drawn.iter().any(falls) && drawn.iter().any(rises), "the order changes");
        assert_eq!(first(&[]), None);
    }
}
