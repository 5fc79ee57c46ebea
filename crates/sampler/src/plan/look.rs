//! Asking a rule beforehand what it will be asked.

use super::fit::Fit;
use super::index::thinned;
use crate::hash::digest;
use crate::{CapacityRule, PlanError, SampleIndex};

/// The binary logarithm of the most cells that a rule is asked for, which takes a fraction of a millisecond.
const LOG_MOST_CELLS: usize = 16;

/// The padded lengths on each axis that a look goes through, in growing order.
struct Grid<const AXES: usize>([Vec<u32>; AXES]);

/// Returns what tells a rule from others where the samples lie.
///
/// On one axis that is every length that is padded to, up to 2^16 of them; on several it is a grid of as many cells.
///
/// # Errors
///
/// [`PlanError::NotMonotone`].
pub(super) fn look<R: CapacityRule<AXES>, const AXES: usize>(
    index: &SampleIndex<AXES>,
    fit: &Fit<R, AXES>,
) -> Result<u64, PlanError> {
    let grid = Grid::new(index, fit);
    let mut capacities: Vec<u32> = Vec::with_capacity(grid.n_cells());
    for at in 0..grid.n_cells() {
        let lengths = grid.lengths(at);
        let more = fit.capacity(lengths);
        for (axis, before) in grid.neighbours(at) {
            let fewer = capacities[before];
            if fewer < more {
                let [shorter, longer] = [grid.lengths(before)[axis], lengths[axis]];
                return Err(PlanError::NotMonotone { axis, shorter, longer, fewer, more });
            }
        }
        capacities.push(more);
    }
    Ok(digest(&capacities))
}

impl<const AXES: usize> Grid<AXES> {
    fn new<R: CapacityRule<AXES>>(index: &SampleIndex<AXES>, fit: &Fit<R, AXES>) -> Self {
        let most = 1 << (LOG_MOST_CELLS / AXES.max(1));
        Self(std::array::from_fn(|axis| {
            let mut padded: Vec<u32> = index.kinds(axis).iter().map(|it| fit.lattice.padded(axis, *it)).collect();
            padded.dedup();
            thinned(&padded, most)
        }))
    }

    fn n_cells(&self) -> usize {
        self.0.iter().map(Vec::len).product()
    }

    fn lengths(&self, mut at: usize) -> [u32; AXES] {
        self.0.each_ref().map(|axis| {
            let length = axis[at % axis.len()];
            at /= axis.len();
            length
        })
    }

    /// The cells one before this one on each axis.
    fn neighbours(&self, at: usize) -> impl Iterator<Item = (usize, usize)> {
        let mut stride = 1;
        self.0.iter().enumerate().filter_map(move |(axis, lengths)| {
            let is_first = (at / stride).is_multiple_of(lengths.len());
            let before = (!is_first).then(|| (axis, at - stride));
            stride *= lengths.len();
            before
        })
    }
}
