//! How many cases are tried; generated lengths, tasks and sizes of steps, and what must be true of these.

use plimsoll_sampler::{CapacityRule, Lattice, PlannedStep, StepSize, StreamLimits};
use plimsoll_types::Bytes;
use proptest::prelude::*;
use proptest::test_runner::Config;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;

/// Proptest's own number of cases.
const CASES: u32 = 256;

/// Returns `n` cases where `PROPTEST_CASES` is not set, and as many times more or fewer as it asks for of others.
pub(crate) fn cases(n: u32) -> Config {
    let asked = u64::from(Config::default().cases);
    let n = (u64::from(n) * asked / u64::from(CASES)).max(1);
    Config::with_cases(u32::try_from(n).unwrap_or(u32::MAX))
}

/// A generator of numbers for tests.
pub(crate) struct Numbers(SplitMix64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    /// A number from 0 to 1.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number of the standard normal distribution (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.uniform()).ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// A length of a log-normal distribution.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what a length can be")]
    pub(crate) fn log_normal(&mut self, median: f64, sigma: f64, least: u32, most: u32) -> u32 {
        (median * (sigma * self.normal()).exp()).clamp(f64::from(least), f64::from(most)) as u32
    }
}

/// Tokens of chats: log-normal, 8 to 4 096.
pub(crate) fn chats(n: usize) -> Vec<u32> {
    let mut numbers = Numbers::new(1);
    (0..n).map(|_| numbers.log_normal(245.0, 0.9, 8, 4096)).collect()
}

/// Frames of 10 ms of read speech: most utterances of 12 to 16 s, a quarter shorter, none above 24.5 s.
pub(crate) fn speech(n: usize) -> Vec<u32> {
    let mut numbers = Numbers::new(2);
    let mut length = || {
        let (median, sigma) = if numbers.uniform() < 0.75 { (1430.0, 0.09) } else { (800.0, 0.45) };
        numbers.log_normal(median, sigma, 300, 2450)
    };
    (0..n).map(|_| length()).collect()
}

/// Images and tokens, and the task of each sample: one image; two to four of one subject; two to eight of several.
pub(crate) fn images_and_tokens(n: usize) -> ([Vec<u32>; 2], Vec<u16>) {
    let mut numbers = Numbers::new(4);
    let mut images = Vec::new();
    let mut tokens = Vec::new();
    let mut tasks = Vec::new();
    for id in 0..n {
        let (task, least, most, median) =
            [(0, 1, 1, 150.0), (1, 2, 4, 245.0), (2, 2, 8, 400.0)][[0, 0, 1, 1, 2][id % 5]];
        images.push((least..most).fold(least, |sum, _| sum + u32::from(numbers.uniform() < 0.5)));
        tokens.push(numbers.log_normal(median, 0.6, 8, 2048));
        tasks.push(task);
    }
    ([images, tokens], tasks)
}

/// Steps of up to so many samples or positions, or of a batch.
pub(crate) fn step_sizes(samples: u32, positions: u64) -> impl Strategy<Value = StepSize> {
    prop_oneof![
        (1..samples).prop_map(StepSize::Samples),
        (1..positions).prop_map(StepSize::Positions),
        Just(StepSize::Batch)
    ]
}

/// What the buffer of a small stream may hold.
pub(crate) fn stream_limits() -> impl Strategy<Value = StreamLimits> {
    (2usize..60, 800u64..20_000).prop_map(|(samples, bytes)| StreamLimits { samples, bytes: Bytes(bytes) })
}

/// Holds the size of a step against the positions that each of its samples counts.
pub(crate) fn check_size<const AXES: usize>(step: &PlannedStep<AXES>, size: StepSize, positions: &[u64]) {
    let (start, end, n_samples) = (step.span.start, step.span.end, positions.len() as u64);
    match size {
        StepSize::Samples(n) => {
            assert_eq!(n_samples, end - start);
            assert!(end - start == u64::from(n) || step.ends_epoch && end - start < u64::from(n), "{step:?}");
        }
        StepSize::Positions(n) => {
            assert_eq!(positions.iter().sum::<u64>(), end - start);
            let next = (start / n + 1) * n;
            assert!(end >= next || step.ends_epoch, "{step:?}");
            assert!(end < next + positions.iter().max().unwrap(), "{step:?}");
        }
        StepSize::Batch => assert_eq!((step.batches.len(), n_samples), (1, end - start)),
    }
}

/// The longest samples of two axes: images and words.
pub(crate) const LONGEST_OF_TWO: [u32; 2] = [9, 30];

/// What fits by images and by the square of words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Room(pub(crate) u32);

impl Room {
    /// One of the longest samples and no more.
    pub(crate) const LEAST: Self = Self(1260);
}

impl CapacityRule<2> for Room {
    fn capacity(&self, [images, words]: [u32; 2]) -> u32 {
        self.0 / (40 * images + words * words)
    }
}

/// Lengths along two axes.
pub(crate) fn lengths_of_two() -> impl Strategy<Value = [u32; 2]> {
    (1..=LONGEST_OF_TWO[0], 1..=LONGEST_OF_TWO[1]).prop_map(|(images, words)| [images, words])
}

/// Edges on both of two axes, on one of them or on none.
pub(crate) fn lattices_of_two() -> impl Strategy<Value = Lattice<2>> {
    let edges = prop_oneof![Just([vec![], vec![]]), Just([vec![1, 4, 9], vec![6, 30]]), Just([vec![], vec![10, 30]])];
    edges.prop_map(|edges| Lattice::try_new(edges).unwrap())
}

/// Holds a step of two axes against its room, its size and the lengths of its samples.
pub(crate) fn check_step_of_two(
    step: &PlannedStep<2>,
    (room, size): (Room, StepSize),
    lengths_of: impl Fn(u64) -> [u32; 2],
) {
    for batch in &step.batches {
        assert!(!batch.ids.is_empty() && batch.ids.len() <= room.capacity(batch.cell) as usize, "{step:?}");
        let holds = |id: &u64| lengths_of(*id).iter().zip(batch.cell).all(|(length, edge)| *length <= edge);
        assert!(batch.ids.iter().all(holds), "{step:?}");
    }
    let padded = |it: &plimsoll_sampler::StepBatch<2>| it.padded();
    assert!(step.batches.iter().map(padded).is_sorted_by(|a, b| a >= b), "the largest comes first");
    let ids = step.batches.iter().flat_map(|batch| &batch.ids);
    let positions: Vec<_> = ids.map(|id| lengths_of(*id).map(u64::from).iter().product()).collect();
    check_size(step, size, &positions);
}
