//! Which samples are as good as each other.

use std::sync::Arc;

use super::config::{PlanConfig, WINDOW};
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
    /// What a kind says, by kind, and the kind of each sample, by id: one look for all axes and the task.
    /// Both are empty on one axis without tasks, where the length is as good.
    says: Arc<[Kind<AXES>]>,
    of: Of,
}

/// The kind of each sample, by id: one is looked for anywhere among all samples, which takes the longer the larger the table.
#[derive(Clone, Debug, PartialEq)]
enum Of {
    Few(Arc<[u16]>),
    Many(Arc<[u32]>),
}

/// What is known of a sample by its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind<const AXES: usize> {
    /// What it is padded to: its lengths where there are no edges.
    pub(super) lengths: [u32; AXES],
    pub(super) task: u16,
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

    #[inline]
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
    /// The kinds that a plan tells apart; `None` when they are too many to be counted, or windows too small.
    pub(super) fn new(index: &SampleIndex<AXES>, config: &PlanConfig<AXES>, window: usize) -> Option<Self> {
        let has_cells = (0..AXES).all(|axis| has_edges(config, axis));
        let edges = |axis| if has_edges(config, axis) { config.lattice.edges(axis) } else { &[] };
        let axes = std::array::from_fn(|axis| Axis::new(edges(axis), index.longest()[axis]));
        let n = axes.iter().try_fold(index.n_tasks(), |n, axis: &Axis| n.checked_mul(axis.n()))?;
        if n > MOST_KINDS || !(has_cells || window > WINDOW) {
            return None;
        }
        let mut kinds = Self { axes, n_tasks: index.n_tasks(), says: Arc::default(), of: Of::Many(Arc::default()) };
        if !kinds.are_in_order() {
            let task = |id: u32| index.tasks().map_or(0, |tasks| usize::from(tasks[id as usize]));
            let n_samples = narrow(index.n_samples());
            let all = (0..n_samples).map(|id| kinds.kind(index.lengths(id), task(id)));
            kinds.of = match u16::try_from(n - 1) {
                Ok(_) => Of::Few(all.map(|kind| u16::try_from(kind).unwrap_or(u16::MAX)).collect()),
                Err(_) => Of::Many(all.collect()),
            };
            kinds.says = (0..narrow(n)).map(|kind| kinds.decode(kind)).collect();
        }
        Some(kinds)
    }

    /// Number of kinds.
    pub(super) fn n(&self) -> usize {
        self.axes.iter().fold(self.n_tasks, |n, axis| n * axis.n())
    }

    /// Whether a kind is a length, or an edge, on the one axis that there is.
    pub(super) const fn are_in_order(&self) -> bool {
        AXES == 1 && self.n_tasks == 1
    }

    /// The kind of a sample.
    #[inline]
    pub(super) fn of(&self, index: &SampleIndex<AXES>, id: u32) -> u32 {
        match &self.of {
            _ if self.are_in_order() => self.kind(index.lengths(id), 0),
            Of::Few(of) => of[id as usize].into(),
            Of::Many(of) => of[id as usize],
        }
    }

    #[inline]
    pub(super) fn says(&self, kind: u32) -> Kind<AXES> {
        if self.are_in_order() { self.decode(kind) } else { self.says[kind as usize] }
    }

    /// The task of each kind.
    pub(super) fn tasks(&self) -> Vec<u16> {
        (0..narrow(self.n())).map(|kind| self.says(kind).task).collect()
    }

    #[inline]
    fn kind(&self, lengths: [u32; AXES], task: usize) -> u32 {
        narrow(self.axes.iter().zip(lengths).fold(task, |kind, (axis, length)| kind * axis.n() + axis.kind(length)))
    }

    fn decode(&self, kind: u32) -> Kind<AXES> {
        if self.are_in_order() {
            return Kind { lengths: self.axes.each_ref().map(|axis| axis.length(kind as usize)), task: 0 };
        }
        let (mut lengths, mut kind) = ([0; AXES], kind as usize);
        for (length, axis) in lengths.iter_mut().zip(&self.axes).rev() {
            *length = axis.length(kind % axis.n());
            kind /= axis.n();
        }
        Kind { lengths, task: u16::try_from(kind).unwrap_or(u16::MAX) }
    }
}

/// Whether samples are padded to edges.
pub(super) fn has_edges<const AXES: usize>(config: &PlanConfig<AXES>, axis: usize) -> bool {
    config.lattice.n_edges(axis) > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lattice;

    fn kinds(index: &SampleIndex<2>, edges: [Vec<u32>; 2]) -> Option<Kinds<2>> {
        let config = PlanConfig { lattice: Lattice::try_new(edges).unwrap(), ..PlanConfig::default() };
        Kinds::new(index, &config, usize::MAX)
    }

    #[test]
    fn samples_of_one_task_and_cell_are_of_one_kind() {
        let index = SampleIndex::try_new([[3, 4, 9, 12], [5, 5, 7, 6]]).unwrap().with_tasks([0, 0, 1, 1]).unwrap();
        let kinds = kinds(&index, [vec![4, 9], vec![]]).unwrap();
        assert_eq!((kinds.n(), kinds.are_in_order()), (2 * 3 * 8, false));
        assert_eq!(kinds.of(&index, 0), kinds.of(&index, 1));
        let says = [0, 2, 3].map(|id| kinds.says(kinds.of(&index, id)));
        let expected = [([4, 5], 0), ([9, 7], 1), ([12, 6], 1)];
        assert_eq!(says, expected.map(|(lengths, task)| Kind { lengths, task }));
        assert_eq!(kinds.tasks()[kinds.of(&index, 2) as usize], 1);
    }

    #[test]
    fn lengths_beyond_a_table_are_searched() {
        let index = SampleIndex::try_new([[3, 4], [10, 1 << 19]]).unwrap();
        let with_edges = kinds(&index, [vec![], vec![10, 1 << 20]]).unwrap();
        assert_eq!(with_edges.says(with_edges.of(&index, 1)).lengths, [4, 1 << 20]);
        assert_eq!(kinds(&index, [vec![], vec![]]), None);
    }

    #[test]
    fn lengths_of_small_windows_are_not_counted() {
        let index = SampleIndex::try_new([[3, 4], [10, 19]]).unwrap();
        assert_eq!(Kinds::new(&index, &PlanConfig::default(), WINDOW), None);
    }
}
