//! Mixing neighbours in length.
//!
//! Samples that are padded alike are mixed for free, by the order in which they were drawn; a blur mixes the others,
//! and pads them for it.
//! With the 24 edges that pad least, cells alone keep 1.8 % of mates in 100 000 chats, which are padded by 7.9 % in all,
//! and 1.05 % in as much speech (2.1 %).
//! Sorted by length and blurred across the edges, they kept 2.9 and 3.0 %, and were padded by 10.5 and 2.6 %.

use super::arrange::Line;
use super::entry::Entry;
use crate::CapacityRule;
use crate::hash::Rng;

/// How much a window may be blurred: a pool of more than this share of its batches pads more than mixing is worth.
/// So an epoch of few batches keeps more mates than may be kept: [`crate::PlanConfig::reachable_mates_kept`].
/// On several axes the batches are those of a band, in the mean: 100 000 samples of images and tokens keep 4.7 % and
/// are padded by 4.1 %, a million keep 3.1 % and are padded by 0.7 %; without a blur, 69 and 10 %, and 0.5 and 0.2 %.
/// Fewer of either would take neighbours that are not there: a batch of 100 samples that is padded by 1 % has, among
/// 100 000, samples of some six batches that it could be mixed with.
const fn most_pool(n_axes: usize) -> f64 {
    if n_axes == 1 { 1.0 / 64.0 } else { 1.0 / 60.0 }
}

/// The share of a batch's pairs that meet again without a blur, when their samples are in one window again.
pub(super) const KEPT_WITHOUT: f64 = 2.0 / 3.0;

/// Places in a window where the size of the pool is worked out.
const N_KNOTS: usize = 256;

/// Places in a band at least, where there are several.
const LEAST_KNOTS: usize = 32;

/// Halvings in the search for the size of the pool: to a millionth of the most.
const N_HALVINGS: usize = 20;

/// A place in the window.
#[derive(Clone, Copy)]
struct Knot {
    /// One over the batches that the samples of its cell fill, among which they are mixed without a pool.
    cell: f64,
    /// The pool in batches, relative to that of other knots.
    weight: f64,
    /// Samples of a batch.
    capacity: f64,
    /// Batches of the samples around it.
    n_batches: f64,
    /// Batches of its band.
    of_band: f64,
}

/// Sends the entries of bands through a pool from which they leave at random, where their cells alone would keep too
/// many mates.
///
/// An entry waits for an exponentially distributed time, and so lies in a batch whose longest sample is little above it
/// more often than in one far above it; for the same mixing, that pads a quarter less than smaller windows do.
pub(super) struct Blur {
    /// The samples that the pool may hold at each knot, of all bands one after the other.
    sizes: std::vec::IntoIter<usize>,
    n_knots: usize,
}

impl Blur {
    /// Looks at bands of these sizes, each in ascending order on the line's last axis; `None` when cells mix enough.
    pub(super) fn new<R: CapacityRule<AXES>, const AXES: usize>(
        entries: &[Entry<AXES>],
        bands: impl Iterator<Item = usize> + Clone,
        line: &Line<'_, R, AXES>,
        axis: usize,
    ) -> Option<Self> {
        let n_knots = (N_KNOTS / bands.clone().count().max(1)).max(LEAST_KNOTS);
        let mut knots = Vec::new();
        let mut left = entries;
        for size in bands {
            let (band, after) = left.split_at(size);
            let n_before = knots.len();
            knots_of(band, axis, band.len().div_ceil(n_knots).max(1), line, &mut knots);
            let of_band = &mut knots[n_before..];
            let n_batches = of_band.iter().map(|knot| knot.n_batches).sum();
            for knot in of_band {
                knot.of_band = n_batches;
            }
            left = after;
        }
        if mates_kept(&knots, 0.0) <= line.most_kept {
            return None;
        }
        Some(Self { sizes: pool_sizes(&knots, line.most_kept, most_pool(AXES)).into_iter(), n_knots })
    }

    /// Mixes the next band.
    pub(super) fn mix<const AXES: usize>(
        &mut self,
        entries: &mut [Entry<AXES>],
        pool: &mut Vec<Entry<AXES>>,
        rng: &mut Rng,
    ) {
        let stride = entries.len().div_ceil(self.n_knots).max(1);
        pool.clear();
        let mut n_out = 0;
        for start in (0..entries.len()).step_by(stride) {
            let most = self.sizes.next().unwrap_or(0);
            for index in start..entries.len().min(start + stride) {
                pool.push(entries[index]);
                // Where the pool shrinks, two leave for each that enters.
                for _ in 0..2 {
                    if pool.len() > most {
                        entries[n_out] = pool.swap_remove(rng.below(pool.len()));
                        n_out += 1;
                    }
                }
            }
        }
        rng.shuffle(pool);
        entries[n_out..].copy_from_slice(pool);
    }
}

/// Looks at the density of lengths.
///
/// For a pool of a given number of batches, padding grows with the width in length that a batch spans, and mixing with
/// the number of batches; their product is least where the pool follows the square root of the density.
/// On one axis, the fourth root keeps most of that gain, and mixes samples of all lengths nearly alike.
/// On several, bands differ in size by so much that it would not: there, the batches of a pool follow the square root of
/// how many batches there are to a difference in length, each weighed by what of it would be padded.
fn knots_of<R: CapacityRule<AXES>, const AXES: usize>(
    entries: &[Entry<AXES>],
    axis: usize,
    stride: usize,
    line: &Line<'_, R, AXES>,
    knots: &mut Vec<Knot>,
) {
    let last = entries.len().saturating_sub(1);
    let length = |index: usize| f64::from(line.lattice.padded(axis, entries[index].lengths[axis]));
    let knot = |index: usize| {
        let cell = line.cell_around(entries, index);
        let (below, above) = (index.saturating_sub(stride), (index + stride).min(last));
        // A cell that is wider than this is as dense as its samples are from the edge below to its own.
        let (below, above) = (below.min(cell.start.saturating_sub(1)), above.max(cell.end - 1));
        let width = 1.0 + length(above) - length(below);
        let density = (above - below) as f64 * length(index) / width;
        let capacity = f64::from(line.fit.capacity(entries[index].lengths).max(1));
        let weight = if AXES == 1 { density.sqrt().sqrt() } else { (density / length(index)).sqrt() / capacity };
        let n_batches = stride as f64 / capacity;
        Knot { cell: capacity / cell.len() as f64, weight, capacity, n_batches, of_band: 0.0 }
    };
    knots.extend((0..entries.len()).step_by(stride).map(knot));
}

/// The samples that the pool may hold at each knot.
fn pool_sizes(knots: &[Knot], most_kept: f64, most_pool: f64) -> Vec<usize> {
    let n_batches: f64 = knots.iter().map(|knot| knot.n_batches).sum();
    let mean: f64 = knots.iter().map(|knot| knot.weight * knot.n_batches / knot.of_band).sum();
    let (mut too_small, mut enough) = (0.0, most_pool * n_batches / mean);
    for _ in 0..N_HALVINGS {
        let pool = f64::midpoint(too_small, enough);
        if mates_kept(knots, pool) > most_kept { too_small = pool } else { enough = pool }
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of samples, at least 0")]
    let size = |knot: &Knot| (enough * knot.weight * knot.capacity) as usize;
    // A pool that mixes less than the cell does would only pad.
    knots.iter().map(|knot| if knot.meet(enough) < knot.cell { size(knot) } else { 0 }).collect()
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
///
/// In a cell of `c` batches it is 1 / `c` without a pool; with both, at most the smaller of the two.
fn mates_kept(knots: &[Knot], pool: f64) -> f64 {
    let n_batches: f64 = knots.iter().map(|knot| knot.n_batches).sum();
    knots.iter().map(|knot| knot.meet(pool).min(knot.cell) * knot.n_batches).sum::<f64>() / n_batches
}

impl Knot {
    /// The share of pairs that meet again with a pool, whatever the cell.
    fn meet(&self, pool: f64) -> f64 {
        1.0 / (4.0 * pool * self.weight + 1.5)
    }
}
