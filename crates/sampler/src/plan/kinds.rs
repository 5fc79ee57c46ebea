//! Which samples are as good as each other.

use std::sync::Arc;

use super::config::{Objective, PlanConfig};
use super::narrow::narrow;
use crate::SampleIndex;

/// The most kinds that are counted; a window of more is told apart sample by sample.
const MOST_KINDS: usize = 1 << 20;

/// Up to this length, a table of 128 kB at most says which edge holds it; a search takes 10 ns.
const MOST_IN_TABLE: u32 = 1 << 16;

/// The kinds of samples: those of one task that are padded alike are as good as each other.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kinds<const AXES: usize> {
    axes: [Axis; AXES],
    n_tasks: usize,
}

/// What tells samples apart on one axis.
#[derive(Clone, Debug, PartialEq)]
struct Axis {
    /// The edges that samples are padded to; none where every length is a kind.
    edges: Vec<u32>,
    /// The edge that holds each length; empty where there are no edges, or lengths are too long for a table.
    table: Arc<[u16]>,
    longest: u32,
}

impl Axis {
    fn new(edges: &[u32], longest: u32) -> Self {
        let rank = |length| u16::try_from(rank(edges, length)).ok();
        let is_small = !edges.is_empty() && longest <= MOST_IN_TABLE;
        let table = if is_small { (0..=longest).map(rank).collect() } else { None };
        Self { edges: edges.to_vec(), table: table.unwrap_or_default(), longest }
    }

    const fn n(&self) -> usize {
        1 + if self.edges.is_empty() { self.longest as usize } else { self.edges.len() }
    }

    fn kind(&self, length: u32) -> usize {
        match self.table.get(length as usize) {
            Some(rank) => usize::from(*rank),
            None if self.edges.is_empty() => length as usize,
            None => rank(&self.edges, length),
        }
    }

    /// What the samples of a kind are padded to: for lengths above all edges the longest, which has no cell either.
    fn length(&self, kind: usize) -> u32 {
        if self.edges.is_empty() { narrow(kind) } else { self.edges.get(kind).copied().unwrap_or(self.longest) }
    }
}

fn rank(edges: &[u32], length: u32) -> usize {
    edges.partition_point(|edge| *edge < length)
}

impl<const AXES: usize> Kinds<AXES> {
    /// The kinds that a plan tells apart; `None` when they are too many to be counted.
    pub(super) fn new(index: &SampleIndex<AXES>, config: &PlanConfig<AXES>) -> Option<Self> {
        let edges = |axis| if has_edges(config, axis) { config.lattice.edges(axis) } else { &[] };
        let axes = std::array::from_fn(|axis| Axis::new(edges(axis), index.longest()[axis]));
        let n = axes.iter().try_fold(index.n_tasks(), |n, axis: &Axis| n.checked_mul(axis.n()));
        n.is_some_and(|n| n <= MOST_KINDS).then_some(Self { axes, n_tasks: index.n_tasks() })
    }

    /// Number of kinds.
    pub(super) fn n(&self) -> usize {
        self.n_tasks * self.n_of_task()
    }

    /// Whether a kind is a length, or an edge, on the one axis that there is.
    pub(super) const fn are_in_order(&self) -> bool {
        AXES == 1 && self.n_tasks == 1
    }

    pub(super) fn kind(&self, lengths: [u32; AXES], task: usize) -> u32 {
        narrow(self.axes.iter().zip(lengths).fold(task, |kind, (axis, length)| kind * axis.n() + axis.kind(length)))
    }

    /// What the samples of a kind are padded to on each axis: their lengths where there are no edges.
    pub(super) fn lengths(&self, kind: u32) -> [u32; AXES] {
        let (mut lengths, mut kind) = ([0; AXES], kind as usize);
        for (length, axis) in lengths.iter_mut().zip(&self.axes).rev() {
            *length = axis.length(kind % axis.n());
            kind /= axis.n();
        }
        lengths
    }

    /// The task of each kind.
    pub(super) fn tasks(&self) -> Vec<u16> {
        let n_of_task = self.n_of_task();
        (0..=u16::MAX).take(self.n_tasks).flat_map(|task| std::iter::repeat_n(task, n_of_task)).collect()
    }

    fn n_of_task(&self) -> usize {
        self.axes.iter().map(Axis::n).product()
    }
}

/// Whether samples are padded to edges one by one; rows are padded as a whole, so that their samples have no cells.
pub(super) fn has_edges<const AXES: usize>(config: &PlanConfig<AXES>, axis: usize) -> bool {
    config.lattice.n_edges(axis) > 0 && config.objective != Objective::FewestRows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lattice;

    fn index(axes: [Vec<u32>; 2]) -> SampleIndex<2> {
        SampleIndex::try_new(axes).unwrap()
    }

    #[test]
    fn samples_of_one_task_and_cell_are_of_one_kind() {
        let lattice = Lattice::try_new([vec![4, 9], vec![]]).unwrap();
        let config = PlanConfig { lattice, ..PlanConfig::default() };
        let index = index([vec![3, 4, 9, 12], vec![5, 5, 5, 7]]).with_tasks([0, 0, 1, 1]).unwrap();
        let kinds = Kinds::new(&index, &config).unwrap();
        assert_eq!((kinds.n(), kinds.are_in_order()), (2 * 3 * 8, false));
        assert_eq!(kinds.kind([3, 5], 0), kinds.kind([4, 5], 0));
        for (lengths, task, padded) in [([3, 5], 0, [4, 5]), ([5, 7], 1, [9, 7]), ([12, 1], 1, [12, 1])] {
            let kind = kinds.kind(lengths, task);
            assert_eq!((kinds.lengths(kind), usize::from(kinds.tasks()[kind as usize])), (padded, task));
        }
    }

    #[test]
    fn lengths_beyond_a_table_are_searched() {
        let lattice = Lattice::try_new([vec![], vec![10, 1 << 20]]).unwrap();
        let config = PlanConfig { lattice, ..PlanConfig::default() };
        let kinds = Kinds::new(&index([vec![3, 4], vec![10, 1 << 19]]), &config).unwrap();
        assert_eq!(kinds.lengths(kinds.kind([4, 1 << 19], 0)), [4, 1 << 20]);
        assert_eq!(Kinds::new(&index([vec![3, 4], vec![10, 1 << 19]]), &PlanConfig::default()), None);
    }
}
