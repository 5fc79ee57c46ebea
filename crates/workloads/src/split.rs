//! Which items are held out.

use plimsoll_sampler::Permutation;

/// Decides the validation split; the same for every run, so that runs with different seeds can be compared.
const SPLIT_SEED: u64 = 0;

/// Says of each of `n` items, at least two, whether it is held out: a share of them, and at least one on each side.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a number of items is a smaller, non-negative number"
)]
pub(crate) fn held_out(n: usize, share: f64) -> Vec<bool> {
    let n_held = ((n as f64 * share).round() as u64).clamp(1, n as u64 - 1);
    let permutation = Permutation::new(n as u64, SPLIT_SEED, 0);
    let mut held = vec![false; n];
    (0..n_held).for_each(|i| held[permutation.at(i) as usize] = true);
    held
}
