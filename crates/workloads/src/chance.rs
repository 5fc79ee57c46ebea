//! Random numbers that depend on nothing but numbers.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

/// Returns 64 well-mixed bits that depend on every word, from a state that says what they are for.
pub(crate) fn hash(purpose: u64, words: [u64; 3]) -> u64 {
    words.into_iter().fold(purpose, |state, word| SplitMix64::seed_from_u64(state ^ word).next_u64())
}

/// Random numbers that depend on seed, epoch and sample alone.
pub(crate) struct Chance(SplitMix64);

impl Chance {
    /// Starts the numbers of a sample in an epoch.
    pub(crate) fn new(seed: u64, epoch: u64, sample: u64) -> Self {
        let state = [epoch, sample].into_iter().fold(mix(seed), |state, word| mix(state ^ word));
        Self(SplitMix64::seed_from_u64(state))
    }

    fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns whether an even chance came out.
    pub(crate) fn flip(&mut self) -> bool {
        self.next() >> 63 == 1
    }

    /// Returns a number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (((self.next() >> 32) * n as u64) >> 32) as usize
    }

    /// Returns `n` of the items in any order; where there are fewer, they come again.
    pub(crate) fn some_of<T: Copy>(&mut self, items: &[T], n: usize) -> Vec<T> {
        let mut items = items.to_vec();
        for at in 0..n.min(items.len()) {
            let other = at + self.below(items.len() - at);
            items.swap(at, other);
        }
        items.iter().copied().cycle().take(n).collect()
    }

    /// Returns a number from `-most` to `most`.
    #[expect(clippy::cast_precision_loss, reason = "24 bits are exact in f32")]
    pub(crate) fn around_zero(&mut self, most: f32) -> f32 {
        ((self.next() >> 40) as f32 / (1u32 << 23) as f32 - 1.0) * most
    }
}

/// Mixes 64 bits, one to one: the finaliser of `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014), with the constants of
/// Stafford's "Mix13".
const fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_and_the_purpose_count() {
        let of = [[1, 2, 3], [2, 2, 3], [1, 3, 3], [1, 2, 4]].map(|words| hash(0, words));
        assert!(of[1..].iter().all(|it| *it != of[0]) && hash(1, [1, 2, 3]) != of[0]);
    }
}
