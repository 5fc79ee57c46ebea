//! A small generator of random numbers that gives the same ones everywhere.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

/// A generator of random numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random(SplitMix64);

impl Random {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    /// Returns 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number between `low` and `high`, each equally likely.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        // The upper 53 bits are as many as a float holds.
        let unit = (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        low + unit * (high - low)
    }

    /// Returns a number between `low` and `high` whose logarithm is equally likely everywhere.
    pub fn log_uniform(&mut self, low: f64, high: f64) -> f64 {
        self.uniform(low.ln(), high.ln()).exp()
    }

    /// Returns a multiple of `step` between `step · low` and `step · high`, both included.
    pub fn multiple(&mut self, step: u32, low: u32, high: u32) -> u32 {
        // The upper 32 bits, spread over the range: Lemire's multiplication without the rejection of a remainder.
        let spread = ((self.next_u64() >> 32) * u64::from(high - low + 1)) >> 32;
        step * (low + u32::try_from(spread).unwrap_or(high - low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_within_their_range() {
        let mut random = Random::new(7);
        for _ in 0..1000 {
            assert!((-2.0..=3.0).contains(&random.uniform(-2.0, 3.0)));
            assert!((0.5..=8.0).contains(&random.log_uniform(0.5, 8.0)));
            assert!((16..=64).contains(&random.multiple(16, 1, 4)));
        }
    }
}
