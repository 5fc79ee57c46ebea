//! Edges along several axes at once.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_types::{Cells, Extent, MAX_AXES};

use super::partition::Partition;
use super::{counted, edges, rounded};
use crate::EdgesError;

/// Returns no more than `most` cells to pad samples of these extents to, with edges along each axis that are multiples of its
/// own number in `multiples`, of which there is one for each axis.
///
/// Along each axis the edges are those that pad least, as [`edges`] chooses them: all `most` of them where there is one axis.
/// Where there are several, each begins with one edge, and the axis gets another whose edge saves the most padded positions,
/// products over the axes, for as long as there are no more cells; of all these the cells that pad least.
/// Those count that hold a sample, or a batch of unlike ones: the smallest that covers some that do.
/// Samples are sorted once; from there on only how many different ones there are when rounded up counts, and one program for
/// each axis finds the edges of every number.
///
/// # Errors
///
/// [`EdgesError::BelowOne`] for no cell, [`EdgesError::OtherAxes`] for a sample of other axes than `multiples`, and those of
/// [`edges`], for the lengths along the first axis of which it refuses one.
///
/// # Example
///
/// ```
/// use plimsoll_sampler::cells;
/// use plimsoll_types::Extent;
///
/// // Images, and words that do not depend on them.
/// let extents: Vec<_> = (0..40).map(|at| Extent::try_new(&[1 + at % 2 * 5, 10 + at % 7])).collect::<Result<_, _>>()?;
/// assert_eq!(cells(&extents, 4, &[1, 4])?.to_string(), "1 × 12, 1 × 16, 6 × 12, 6 × 16");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn cells(extents: &[Extent], most: u32, multiples: &[u32]) -> Result<Cells, EdgesError> {
    if most == 0 {
        return Err(EdgesError::BelowOne("most"));
    }
    let n_multiples = multiples.len();
    if let Some(other) = extents.iter().find(|it| it.n_axes() != n_multiples) {
        return Err(EdgesError::OtherAxes { n_multiples, n_axes: other.n_axes() });
    }
    if let [multiple] = multiples {
        let lengths: Vec<u32> = extents.iter().map(|it| it.edge()).collect();
        return Ok(edges(&lengths, most, *multiple)?.edges.into());
    }
    let kinds = kinds(extents, multiples)?;
    let axes = Axes::new(&kinds, most, n_multiples);
    let mut n_edges = vec![1; n_multiples];
    let mut best = axes.padded(&kinds, &n_edges);
    while let Some((axis, padded)) = axes.refined(&kinds, &n_edges, most as usize) {
        n_edges[axis] += 1;
        // The best edges of one number are not among those of the next, so that one more may pad more.
        if padded.positions < best.positions {
            best = padded;
        }
    }
    let mut cells: Vec<Extent> = best.cells.into_iter().collect();
    cells.sort_unstable_by_key(|it| (it.positions(), *it));
    Ok(cells.into_iter().collect())
}

/// Each extent once whose edges are rounded up to multiples, and how many samples have it.
fn kinds(extents: &[Extent], multiples: &[u32]) -> Result<Vec<(Extent, u64)>, EdgesError> {
    let along = |axis: usize| extents.iter().map(move |it| it.edges().get(axis).copied().unwrap_or(0));
    let of_axis = |(axis, multiple): (usize, &u32)| rounded(along(axis), *multiple);
    let edges: Vec<Vec<u32>> = multiples.iter().enumerate().map(of_axis).collect::<Result<_, _>>()?;
    let of = |sample: usize| extent(edges.iter().map(|axis| axis[sample]));
    Ok(counted((0..extents.len()).map(of).collect()))
}

fn extent(along: impl Iterator<Item = u32>) -> Extent {
    let (mut edges, mut n_axes) = ([0; MAX_AXES], 0);
    for (edge, along) in edges.iter_mut().zip(along) {
        (*edge, n_axes) = (along, n_axes + 1);
    }
    Extent::try_new(&edges[..n_axes]).unwrap_or_else(|error| unreachable!("an edge along each axis: {error}"))
}

/// For each axis, the best edges of each number of them, from one.
struct Axes(Vec<Vec<Vec<u32>>>);

/// What samples are padded to by some edges.
struct Padded {
    cells: BTreeSet<Extent>,
    positions: u64,
}

impl Axes {
    fn new(kinds: &[(Extent, u64)], most: u32, n_axes: usize) -> Self {
        let of_axis = |axis: usize| {
            let mut counts = BTreeMap::<u32, u64>::new();
            for (extent, n) in kinds {
                *counts.entry(extent.edges()[axis]).or_default() += n;
            }
            let mut partition = Partition::new(&counts.into_iter().collect::<Vec<_>>());
            let mut all = vec![partition.edges()];
            while all.len() < most as usize && partition.refine() {
                all.push(partition.edges());
            }
            all
        };
        Self((0..n_axes).map(of_axis).collect())
    }

    /// Returns the axis whose next edge saves the most, and what samples are padded to with it.
    fn refined(&self, kinds: &[(Extent, u64)], n_edges: &[usize], most: usize) -> Option<(usize, Padded)> {
        let with_one_more = |axis: usize| {
            let mut n_edges = n_edges.to_vec();
            n_edges[axis] += 1;
            self.0[axis].get(n_edges[axis] - 1)?;
            let padded = self.padded(kinds, &n_edges);
            (padded.cells.len() <= most).then_some((axis, padded))
        };
        (0..n_edges.len()).filter_map(with_one_more).min_by_key(|(_, it)| it.positions)
    }

    /// Returns what samples are padded to by so many edges along each axis.
    fn padded(&self, kinds: &[(Extent, u64)], n_edges: &[usize]) -> Padded {
        let edges: Vec<&[u32]> = self.0.iter().zip(n_edges).map(|(all, n)| all[n - 1].as_slice()).collect();
        let edge = |(length, edges): (&u32, &&[u32])| edges[edges.partition_point(|edge| edge < length)];
        let (mut counts, mut positions) = (BTreeMap::<Extent, u64>::new(), 0_u64);
        for (kind, n) in kinds {
            *counts.entry(extent(kind.edges().iter().zip(&edges).map(edge))).or_default() += n;
        }
        for (cell, n) in &counts {
            positions = positions.saturating_add(cell.positions().saturating_mul(*n));
        }
        Padded { cells: joined(counts.into_keys().collect()), positions }
    }
}

/// Returns these, and the smallest that cover any of them.
fn joined(cells: BTreeSet<Extent>) -> BTreeSet<Extent> {
    let mut all = BTreeSet::new();
    for cell in cells {
        let joins: Vec<Extent> = all.iter().map(|other: &Extent| other.joined(cell)).collect();
        all.extend(joins);
        all.insert(cell);
    }
    all
}
