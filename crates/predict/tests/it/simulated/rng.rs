//! Seeded numbers: the same in every run.

/// `SplitMix64`, whose first number is good already.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number from 0 up to but not including 1.
    pub(crate) fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
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
