//! A small generator of random numbers that gives the same ones everywhere.

/// A generator of random numbers.
///
/// # Sources
///
/// Steele, Lea and Flood, *Fast Splittable Pseudorandom Number Generators* (2014), `SplitMix64`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Starts from a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns 64 random bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
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
    fn the_numbers_are_those_of_the_reference() {
        let mut random = SplitMix64::new(1_234_567);
        let numbers = [(); 3].map(|()| random.next_u64());
        assert_eq!(numbers, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn numbers_are_within_their_range() {
        let mut random = SplitMix64::new(7);
        for _ in 0..1000 {
            assert!((-2.0..=3.0).contains(&random.uniform(-2.0, 3.0)));
            assert!((0.5..=8.0).contains(&random.log_uniform(0.5, 8.0)));
            assert!((16..=64).contains(&random.multiple(16, 1, 4)));
        }
    }
}
