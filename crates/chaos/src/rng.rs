//! Randomness from a seed.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

/// The same numbers for the same seed, on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Rng(SplitMix64);

impl Rng {
    /// The random numbers of one round of a seed, which depend on no other round.
    pub(crate) fn of_round(seed: u64, round: u64) -> Self {
        let key = SplitMix64::seed_from_u64(seed).next_u64();
        Self(SplitMix64::seed_from_u64(key.wrapping_add(SplitMix64::seed_from_u64(round).next_u64())))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// A number from 0 to 1.
    pub(crate) fn share(&mut self) -> f64 {
        self.between(0, 1000) as f64 / 1000.0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let last = from.len() as u64 - 1;
        from[usize::try_from(self.between(0, last)).unwrap_or(0)]
    }
}
