//! Mixing neighbours in length.

use super::entry::Entry;
use super::fit::Fit;
use crate::CapacityRule;
use crate::hash::Rng;

/// How much a window may be blurred: a pool of more than this share of its batches pads more than mixing is worth.
const MOST_POOL: f64 = 1.0 / 64.0;

/// The share of a batch's pairs that meet again without a blur, when their samples are in one window again.
pub(super) const KEPT_WITHOUT: f64 = 2.0 / 3.0;

/// Places in a window where the size of the pool is worked out.
const N_KNOTS: usize = 256;

/// Halvings in the search for the size of the pool: to a millionth of the most.
const N_HALVINGS: usize = 20;

/// A place in the window.
#[derive(Clone, Copy)]
struct Knot {
    /// The pool in batches, relative to that of other knots.
    weight: f64,
    /// Samples of a batch.
    capacity: f64,
}

/// Sends entries that are sorted on an axis, in ascending order, through a pool from which they leave at random.
///
/// `most_kept` is the share of a batch's pairs that may meet again among those whose samples are in one window again.
/// An entry waits for an exponentially distributed time, and so lies in a batch whose longest sample is little above it
/// more often than in one far above it; for the same mixing, that pads a quarter less than smaller windows do.
pub(super) fn blur<R: CapacityRule<AXES>, const AXES: usize>(
    entries: &mut [Entry<AXES>],
    pool: &mut Vec<Entry<AXES>>,
    axis: usize,
    fit: &Fit<R, AXES>,
    most_kept: f64,
    rng: &mut Rng,
) {
    let stride = entries.len().div_ceil(N_KNOTS).max(1);
    let sizes = pool_sizes(&knots(entries, axis, stride, fit), stride, most_kept);
    pool.clear();
    let mut n_out = 0;
    for index in 0..entries.len() {
        pool.push(entries[index]);
        // Where the pool shrinks, two leave for each that enters.
        for _ in 0..2 {
            if pool.len() > sizes[index / stride] {
                entries[n_out] = pool.swap_remove(rng.below(pool.len()));
                n_out += 1;
            }
        }
    }
    rng.shuffle(pool);
    entries[n_out..].copy_from_slice(pool);
}

/// Looks at the density of lengths.
///
/// For a pool of a given number of batches, padding grows with the width in length that a batch spans, and mixing with
/// the number of batches; their product is least where the pool follows the square root of the density.
/// The fourth root keeps most of that gain, and mixes samples of all lengths nearly alike.
fn knots<R: CapacityRule<AXES>, const AXES: usize>(
    entries: &[Entry<AXES>],
    axis: usize,
    stride: usize,
    fit: &Fit<R, AXES>,
) -> Vec<Knot> {
    let last = entries.len().saturating_sub(1);
    let knot = |index: usize| {
        let (below, above) = (index.saturating_sub(stride), (index + stride).min(last));
        let width = 1.0 + f64::from(entries[above].lengths[axis] - entries[below].lengths[axis]);
        let lengths = entries[index].lengths;
        let density = (above - below) as f64 * f64::from(lengths[axis]) / width;
        Knot { weight: density.sqrt().sqrt(), capacity: f64::from(fit.capacity(lengths).max(1)) }
    };
    (0..entries.len()).step_by(stride).map(knot).collect()
}

/// The samples that the pool may hold at each knot.
fn pool_sizes(knots: &[Knot], stride: usize, most_kept: f64) -> Vec<usize> {
    let n_batches: f64 = knots.iter().map(|knot| stride as f64 / knot.capacity).sum();
    let mean: f64 = knots.iter().map(|knot| knot.weight * stride as f64 / knot.capacity / n_batches).sum();
    let (mut too_small, mut enough) = (0.0, MOST_POOL * n_batches / mean);
    for _ in 0..N_HALVINGS {
        let pool = f64::midpoint(too_small, enough);
        if mates_kept(knots, pool) > most_kept { too_small = pool } else { enough = pool }
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of samples, at least 0")]
    knots.iter().map(|knot| (enough * knot.weight * knot.capacity) as usize).collect()
}

/// The share of pairs that meet again among those whose samples are in one window again, over batches.
///
/// With a pool of `b` batches it is 1 / (4 b + 1.5).
/// Without a pool that is two thirds: two ranks in a batch, relative to its width, lie δ apart with density 2 (1 − δ),
/// and meet again with probability 1 − δ.
/// With a large one, places are exponentially distributed, and the square of that distribution's autocorrelation has
/// the integral 1/4.
/// In simulations it met the share to within a tenth for pools of several batches, and was up to a quarter too low for
/// one batch.
fn mates_kept(knots: &[Knot], pool: f64) -> f64 {
    let n_batches: f64 = knots.iter().map(|knot| 1.0 / knot.capacity).sum();
    let meet = |knot: &Knot| 1.0 / (4.0 * pool * knot.weight + 1.5) / knot.capacity;
    knots.iter().map(meet).sum::<f64>() / n_batches
}
