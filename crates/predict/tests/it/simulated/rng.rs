//! Seeded numbers: the same in every run.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

/// A generator whose first number is good already.
pub(crate) struct Rng(SplitMix64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    /// Returns a number from 0 up to but not including 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number between the two, with equal chances for each factor.
    pub(crate) fn log_uniform(&mut self, least: f64, most: f64) -> f64 {
        least * (most / least).powf(self.unit())
    }

    /// Returns a whole number from `least` to `most`.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the product lies within the range")]
    pub(crate) fn whole(&mut self, least: u32, most: u32) -> u32 {
        least + (self.unit() * f64::from(most - least + 1)) as u32
    }

    /// Returns a whole number from `least` to `most`, with equal chances for each factor.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the power lies within the range")]
    pub(crate) fn whole_log(&mut self, least: u32, most: u32) -> u32 {
        self.log_uniform(f64::from(least), f64::from(most) + 1.0) as u32
    }
}
