//! What lies near each place of a window, and what a pool there keeps of the mates.

use std::ops::Range;

use super::entry::Entry;
use super::line::Line;

/// Places in a window where the size of the pool is worked out.
const N_KNOTS: usize = 256;

/// Places in a band at least, where there are several.
const LEAST_KNOTS: usize = 32;

/// Halvings in the search for the size of the pool: to a millionth of the most.
const N_HALVINGS: usize = 20;

/// By how much more mates are kept than the models of a pool say: the lengths of few batches are no smooth distribution.
const MODEL_ERROR: f64 = 1.1;

/// The share of a batch's pairs that meet again without a pool, when their samples are in one window again.
pub(super) const KEPT_WITHOUT: f64 = 2.0 / 3.0;

/// Places in a window, of all bands one after the other.
pub(super) struct Knots {
    all: Vec<Knot>,
    per_band: usize,
}

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
    /// The greatest of `cell` from here to the next place, and batches of the samples between.
    most_cell: f64,
    n_between: f64,
}

impl Knots {
    /// Looks at bands of these sizes, each in ascending order on the line's last axis.
    pub(super) fn new<const AXES: usize>(
        entries: &[Entry<AXES>],
        bands: impl Iterator<Item = usize> + Clone,
        line: &Line<'_, AXES>,
        axis: usize,
    ) -> Self {
        let per_band = (N_KNOTS / bands.clone().count().max(1)).max(LEAST_KNOTS);
        let mut knots = Self { all: Vec::new(), per_band };
        let mut left = entries;
        for size in bands {
            let (band, after) = left.split_at(size);
            let n_before = knots.all.len();
            knots.look(band, axis, line);
            let of_band = &mut knots.all[n_before..];
            let n_batches = of_band.iter().map(|knot| knot.n_batches).sum();
            for knot in of_band {
                knot.of_band = n_batches;
            }
            left = after;
        }
        knots
    }

    /// Samples from one knot of a band to the next.
    pub(super) fn stride(&self, n_samples: usize) -> usize {
        n_samples.div_ceil(self.per_band).max(1)
    }

    /// Looks at the density of lengths.
    ///
    /// For a pool of a given number of batches, padding grows with the width in length that a batch spans, and mixing
    /// with the number of batches; their product is least where the pool follows the square root of the density.
    /// On one axis, the fourth root keeps most of that gain, and mixes samples of all lengths nearly alike.
    /// On several, bands differ in size by so much that it would not: there, the batches of a pool follow the square root
    /// of how many batches there are to a difference in length, each weighed by what of it would be padded.
    fn look<const AXES: usize>(&mut self, entries: &[Entry<AXES>], axis: usize, line: &Line<'_, AXES>) {
        let stride = self.stride(entries.len());
        let last = entries.len().saturating_sub(1);
        let length = |index: usize| f64::from(line.lattice.padded(axis, entries[index].lengths[axis]));
        let knot = |index: usize| {
            let cell: Range<usize> = line.cell_around(entries, index);
            let (below, above) = (index.saturating_sub(stride), (index + stride).min(last));
            // A cell that is wider than this is as dense as its samples are from the edge below to its own.
            let (below, above) = (below.min(cell.start.saturating_sub(1)), above.max(cell.end - 1));
            let width = 1.0 + length(above) - length(below);
            let density = (above - below) as f64 * length(index) / width;
            let capacity = f64::from((line.capacity)(entries[index].lengths).max(1));
            let weight = if AXES == 1 { density.sqrt().sqrt() } else { (density / length(index)).sqrt() / capacity };
            let n_batches = stride as f64 / capacity;
            let cell = capacity / cell.len() as f64;
            Knot { cell, weight, capacity, n_batches, of_band: 0.0, most_cell: cell, n_between: n_batches }
        };
        let n_before = self.all.len();
        self.all.extend((0..entries.len()).step_by(stride).map(knot));
        // Long samples are few, and fill many batches.
        let mut next = (!entries.is_empty()).then(|| knot(last));
        for here in self.all[n_before..].iter_mut().rev() {
            let after = next.replace(*here).unwrap_or(*here);
            here.most_cell = here.cell.max(after.cell);
            here.n_between = f64::midpoint(here.n_batches, after.n_batches);
        }
    }

    /// The samples that the pool may hold at each knot, so that no more mates are kept, or as few as the largest pool of
    /// so many batches keeps; none where the cells alone keep few enough.
    pub(super) fn pools(&self, most_kept: f64, most_pool: f64) -> Option<Vec<usize>> {
        if self.kept(0.0) <= most_kept {
            return None;
        }
        let mean: f64 = self.all.iter().map(|knot| knot.weight * knot.n_batches / knot.of_band).sum();
        let (mut too_small, mut enough) = (0.0, most_pool * self.n_batches() / mean);
        for _ in 0..N_HALVINGS {
            let pool = f64::midpoint(too_small, enough);
            if self.kept(pool) > most_kept { too_small = pool } else { enough = pool }
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of samples, at least 0")]
        let size = |knot: &Knot| (enough * knot.weight * knot.capacity) as usize;
        // A pool that mixes less than the cell does would only pad.
        Some(self.all.iter().map(|knot| if knot.meet(enough) < knot.cell { size(knot) } else { 0 }).collect())
    }

    /// The greatest share of pairs that meet again with pools of these sizes, when their samples are in one window again.
    pub(super) fn reachable(&self, pools: Option<&[usize]>, window_share: f64) -> f64 {
        let most_kept = |(at, knot): (usize, &Knot)| {
            let pool = pools.map_or(0, |pools| pools[at]) as f64 / knot.capacity;
            let kept = met(pool, knot.shift(window_share)).min(knot.most_cell);
            (MODEL_ERROR * kept).min(1.0) * knot.n_between
        };
        let n_batches: f64 = self.all.iter().map(|knot| knot.n_between).sum();
        self.all.iter().enumerate().map(most_kept).sum::<f64>() / n_batches
    }

    /// The share of pairs that meet again among those whose samples are in one window again, over batches.
    ///
    /// In a cell of `c` batches it is 1 / `c` without a pool; with both, at most the smaller of the two.
    fn kept(&self, pool: f64) -> f64 {
        self.all.iter().map(|knot| knot.meet(pool).min(knot.cell) * knot.n_batches).sum::<f64>() / self.n_batches()
    }

    fn n_batches(&self) -> f64 {
        self.all.iter().map(|knot| knot.n_batches).sum()
    }
}

impl Knot {
    /// The share of pairs that meet again with a pool, whatever the cell.
    fn meet(&self, pool: f64) -> f64 {
        met(pool * self.weight, 1.0)
    }

    /// By how many batches a sample's place in the window changes, in the mean, with the samples that are shorter.
    fn shift(&self, window_share: f64) -> f64 {
        0.5 * ((1.0 - window_share).max(0.0) * self.of_band / self.capacity).sqrt()
    }
}

/// The share of pairs that meet again with a pool of `b` batches: with a large one 1 / (4 b), since places are
/// exponentially distributed, and the square of that distribution's autocorrelation has the integral 1/4.
///
/// Without a pool it is two thirds where the beginnings of batches shift by more than a batch: two ranks in a batch,
/// relative to its width, lie δ apart with density 2 (1 − δ), and meet again with probability 1 − δ.
/// Where they do not shift, every batch comes again as it is.
/// In simulations with batches of 50 samples, 1 / (4 b + 1 / (1 + 2 b)) was met to within a twentieth there, from a
/// quarter of a batch to 16 batches; smaller batches keep fewer.
fn met(pool: f64, shift: f64) -> f64 {
    let (shift, still) = (shift.min(1.0), 1.0 / (1.0 + 2.0 * pool));
    1.0 / (4.0 * pool + (1.5 * shift + still * (1.0 - shift)))
}
