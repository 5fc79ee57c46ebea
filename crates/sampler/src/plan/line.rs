//! Samples in a line.

use std::ops::Range;

use super::entry::Entry;
use crate::Lattice;

/// How samples are put into a line.
///
/// It asks for few capacities, and so knows no rule by its type: lines are compiled once for each number of axes.
pub(super) struct Line<'a, const AXES: usize> {
    /// The axes from the coarsest to the finest.
    pub(super) axes: &'a [usize],
    /// About how many samples a batch holds.
    pub(super) per_batch: f64,
    /// How many samples as long as this fit.
    pub(super) capacity: &'a dyn Fn([u32; AXES]) -> u32,
    /// The edges that each sample is padded to: samples of one cell are alike, and keep their random order.
    pub(super) lattice: &'a Lattice<AXES>,
    /// The share of a batch's pairs that may meet again, of those whose samples are in one window again.
    pub(super) most_kept: f64,
    /// The share of an epoch that is in one window.
    pub(super) window_share: f64,
}

impl<const AXES: usize> Line<'_, AXES> {
    /// Where the entries lie, among those of a sorted band, that are padded as one of them is on every axis.
    pub(super) fn cell_around(&self, entries: &[Entry<AXES>], index: usize) -> Range<usize> {
        // Sorting is stable, so that entries of one cell on the last axis are in the order of the axes before.
        let cell = |entry: &Entry<AXES>| {
            let mut cell = entry.lengths;
            for (length, axis) in cell.iter_mut().zip(self.axes.iter().rev()) {
                *length = self.lattice.padded(*axis, entry.lengths[*axis]);
            }
            cell
        };
        let this = cell(&entries[index]);
        let is_here = |entry: &Entry<AXES>| cell(entry) == this;
        let end = index + n_alike(&entries[index..], is_here);
        let before = &entries[..index];
        let most = doubled(index, |n| is_here(&before[index - 1 - n]));
        let start = index - most + before[index - most..].partition_point(|entry| !is_here(entry));
        start..end
    }
}

/// How many entries from the first on are alike, where all that are lie at the beginning.
pub(super) fn n_alike<T>(entries: &[T], is_alike: impl Fn(&T) -> bool) -> usize {
    let most = doubled(entries.len(), |n| is_alike(&entries[n]));
    entries[..most].partition_point(is_alike)
}

/// The least power of two that leads out of what is here, or the number of all: most cells are small.
fn doubled(n_all: usize, is_here: impl Fn(usize) -> bool) -> usize {
    let mut n = 1;
    while n < n_all && is_here(n) {
        n *= 2;
    }
    n.min(n_all)
}
