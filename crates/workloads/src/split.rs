//! Which items are held out.

use plimsoll_sampler::Permutation;

/// Decides the validation split; the same for every run, so that runs with different seeds can be compared.
const SPLIT_SEED: u64 = 0;

/// Says of each of `n` items whether it is held out: a share of them, rounded, and at least one on each side where there
/// are two.
#[expect(clippy::cast_possible_truncation, reason = "a number below that of the items is an index")]
pub(crate) fn held_out(n: usize, share: f64) -> Vec<bool> {
    let permutation = Permutation::new(n as u64, SPLIT_SEED, 0);
    let mut held = vec![false; n];
    (0..n_held(n, share)).for_each(|i| held[permutation.at(i) as usize] = true);
    held
}

/// As [`held_out`], for one of several groups, each of which is split in a way of its own.
pub(crate) fn held_out_of(group: u64, n: usize, share: f64) -> Vec<bool> {
    let order = Permutation::new(n as u64, SPLIT_SEED, group);
    let n_held = n_held(n, share);
    (0..n as u64).map(|item| order.at(item) < n_held).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a number of items is a smaller, non-negative number"
)]
fn n_held(n: usize, share: f64) -> u64 {
    if n < 2 { 0 } else { ((n as f64 * share).round() as u64).clamp(1, n as u64 - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(n: usize, share: f64, expected: usize) {
        for held in [held_out(n, share), held_out_of(0, n, share), held_out_of(7, n, share)] {
            assert_eq!((held.len(), held.iter().filter(|it| **it).count()), (n, expected));
        }
    }

    #[test]
    fn a_share_is_rounded_and_both_sides_have_one_where_there_are_two() {
        check(0, 0.5, 0);
        check(1, 1.0, 0);
        check(2, 0.0, 1);
        check(2, 1.0, 1);
        check(10, 0.24, 2);
        check(10, 0.25, 3);
    }

    #[test]
    fn groups_of_one_size_are_split_in_ways_of_their_own() {
        assert_ne!(held_out_of(0, 100, 0.5), held_out_of(1, 100, 0.5));
    }
}
