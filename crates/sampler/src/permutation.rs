//! A shuffled epoch without a table.

use crate::hash::{Use, hash, mix};

/// Rounds of the network: twice the four that make a Feistel network look random when its halves are large, because a
/// half of a few values mixes less per round. A number costs about 30 ns.
const N_ROUNDS: usize = 8;

/// A keyed permutation of `0..n` in constant memory.
///
/// A number is written as `left · side + right`, where `side` is the square root of `n`, rounded up.
/// Each round of a Feistel network turns `(left, right)` into `(right, left + f(right) mod side)`, which can be
/// undone, so that the network permutes the numbers below `side²`.
/// These are at most `2 √n` more than `n`; a result that is not below `n` goes through the network again until it is
/// (cycle walking), which keeps the permutation one to one.
///
/// # Sources
///
/// Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002, sections 3 and 4; the round function is
/// `SplitMix64`'s finaliser of the right half and the round's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permutation {
    n: u64,
    side: u64,
    keys: [u64; N_ROUNDS],
}

impl Permutation {
    /// Chooses the permutation of `0..n` that belongs to this seed and epoch.
    pub fn new(n: u64, seed: u64, epoch: u64) -> Self {
        let root = n.isqrt();
        let side = if root * root < n { root + 1 } else { root };
        let mut round = 0;
        let keys = [(); N_ROUNDS].map(|()| {
            round += 1;
            hash(Use::Shuffle, seed, epoch, round)
        });
        Self { n, side, keys }
    }

    /// Returns the number at position `i`.
    ///
    /// # Panics
    ///
    /// When `i` is not below `n`.
    pub fn at(&self, i: u64) -> u64 {
        assert!(i < self.n, "position {i} of a permutation of {} numbers", self.n);
        let mut number = self.pass(i);
        while number >= self.n {
            number = self.pass(number);
        }
        number
    }

    /// One pass through the network, a permutation of `0..side²`.
    fn pass(&self, number: u64) -> u64 {
        let round = |(left, right), key: &u64| {
            // The upper half of the hash scaled to `0..side`, which is at most 2^32; a division would be slower.
            let shift = ((mix(right ^ key) >> 32) * self.side) >> 32;
            let sum = left + shift;
            (right, if sum < self.side { sum } else { sum - self.side })
        };
        let (left, right) = self.keys.iter().fold((number / self.side, number % self.side), round);
        left * self.side + right
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shuffled(n: u64, seed: u64, epoch: u64) -> Vec<u64> {
        let permutation = Permutation::new(n, seed, epoch);
        (0..n).map(|i| permutation.at(i)).collect()
    }

    /// Mean distance between position and number, relative to `n`; one third for a uniform shuffle.
    fn mean_displacement(positions: impl ExactSizeIterator<Item = u64>, permutation: &Permutation) -> f64 {
        let n_positions = positions.len();
        let total: f64 = positions.map(|i| permutation.at(i).abs_diff(i) as f64 / permutation.n as f64).sum();
        total / n_positions as f64
    }

    #[test]
    fn displacement_is_that_of_a_uniform_shuffle() {
        for seed in 0..5 {
            let small = mean_displacement((0..10_000u32).map(u64::from), &Permutation::new(10_000, seed, 0));
            // The standard error is 0.236 / √10 000 = 0.0024.
            assert!((small - 1.0 / 3.0).abs() < 0.01, "{small}");
            let spread = (0..10_000u32).map(|k| u64::from(k) * 100_003);
            let large = mean_displacement(spread, &Permutation::new(1_000_030_001, seed, 0));
            assert!((large - 1.0 / 3.0).abs() < 0.01, "{large}");
        }
    }

    #[test]
    fn neighbours_are_torn_apart() {
        // Among 10 000 random pairs, about two are adjacent; an affine "shuffle" keeps one distance for all of them.
        let ids = shuffled(10_000, 3, 0);
        let mut gaps: Vec<_> = ids.windows(2).map(|pair| pair[0].abs_diff(pair[1])).collect();
        assert!(gaps.iter().filter(|gap| **gap == 1).count() < 12);
        gaps.sort_unstable();
        gaps.dedup();
        assert!(gaps.len() > 4_000, "{}", gaps.len());
    }

    #[test]
    fn every_number_of_a_small_range_comes_first_equally_often() {
        let mut first = [0u32; 7];
        for seed in 0..7_000 {
            let at = usize::try_from(Permutation::new(7, seed, 0).at(0)).unwrap();
            first[at] += 1;
        }
        // Expected 1 000 each, with a standard deviation of 29.
        assert!(first.iter().all(|count| (870..1130).contains(count)), "{first:?}");
    }

    #[test]
    fn a_billion_samples_do_not_collide() {
        let n = 1_000_000_007;
        let permutation = Permutation::new(n, 11, 4);
        let mut ids: Vec<_> = (0..20_000).map(|k| permutation.at(k * 50_000)).collect();
        assert!(ids.iter().all(|id| *id < n));
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 20_000);
        assert!(Permutation::new(u64::MAX, 1, 0).at(u64::MAX - 1) < u64::MAX);
    }

    #[test]
    #[should_panic(expected = "position 3 of a permutation of 3 numbers")]
    fn a_position_beyond_the_end_panics() {
        Permutation::new(3, 0, 0).at(3);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_number_comes_exactly_once(n in 0u64..5000, seed: u64, epoch: u64) {
            let mut ids = shuffled(n, seed, epoch);
            ids.sort_unstable();
            prop_assert!(ids.into_iter().eq(0..n));
        }

        #[test]
        fn epochs_and_seeds_differ(n in 50u64..500, seed: u64, epoch in 0u64..1000) {
            let ids = shuffled(n, seed, epoch);
            prop_assert_ne!(&ids, &shuffled(n, seed, epoch + 1));
            prop_assert_ne!(&ids, &shuffled(n, seed.wrapping_add(1), epoch));
        }
    }
}
