//! What the samples of a run are padded to.

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

use crate::{Extent, edge_or_edges};

/// What the samples of a run are padded to: the extents that there are, none before one that it covers.
///
/// On one axis these are edges that grow.
/// On several they are the points of a lattice that hold samples, or that are as large along each axis as some of these: a
/// batch of unlike samples lies in one of them too, and the last holds every sample.
///
/// Written as a list, of numbers where there is one axis: `[8, 16]`, or `[[1, 8], [4, 8], [4, 16]]`.
///
/// # Example
///
/// ```
/// use plimsoll_types::{Cells, Extent};
///
/// let cells: Cells = [[1, 8], [4, 8], [4, 16]].iter().map(|it| Extent::try_new(it)).collect::<Result<_, _>>()?;
/// assert!(cells.is_ordered());
/// assert_eq!((cells.at(Extent::try_new(&[1, 5])?), cells.edges(1)), (Some(0), vec![8, 16]));
/// assert_eq!(cells.to_string(), "1 × 8, 4 × 8, 4 × 16");
/// # Ok::<(), plimsoll_types::ExtentError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Written>", into = "Vec<Written>")]
pub struct Cells(Vec<Extent>);

/// An extent as a list of cells has it.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Written(#[serde(with = "edge_or_edges")] Extent);

impl Cells {
    /// Whether all have as many axes, none is empty, none comes before one that it covers, nor twice, and the last covers all.
    pub fn is_ordered(&self) -> bool {
        let comes_well = |(at, it): (usize, &Extent)| {
            it.edge() != 0 && it.n_axes() == self.n_axes() && !self.0[at + 1..].iter().any(|later| it.covers(*later))
        };
        let holds_all = self.0.last().is_none_or(|last| self.0.iter().all(|it| last.covers(*it)));
        holds_all && self.0.iter().enumerate().all(comes_well)
    }

    /// Returns how many axes samples have; 1 where there is no cell.
    pub fn n_axes(&self) -> usize {
        self.0.first().map_or(1, Extent::n_axes)
    }

    /// Returns the place of the first cell that holds this: its own, where it is one.
    pub fn at(&self, extent: Extent) -> Option<usize> {
        if self.n_axes() == 1 {
            let at = self.0.partition_point(|it| !it.covers(extent));
            return Some(at).filter(|at| *at < self.0.len());
        }
        self.0.iter().position(|it| it.covers(extent))
    }

    /// Returns what this is padded to: the first cell that holds it, or itself where none does.
    pub fn padded(&self, extent: Extent) -> Extent {
        self.at(extent).map_or(extent, |at| self.0[at])
    }

    /// Returns the edges along an axis, in growing order.
    pub fn edges(&self, axis: usize) -> Vec<u32> {
        let mut edges: Vec<u32> = self.0.iter().filter_map(|it| it.edges().get(axis).copied()).collect();
        edges.sort_unstable();
        edges.dedup();
        edges
    }
}

impl Deref for Cells {
    type Target = [Extent];

    fn deref(&self) -> &[Extent] {
        &self.0
    }
}

impl FromIterator<Extent> for Cells {
    fn from_iter<I: IntoIterator<Item = Extent>>(cells: I) -> Self {
        Self(cells.into_iter().collect())
    }
}

/// Cells along one axis.
impl From<Vec<u32>> for Cells {
    fn from(edges: Vec<u32>) -> Self {
        edges.into_iter().map(Extent::new).collect()
    }
}

impl From<Vec<Written>> for Cells {
    fn from(cells: Vec<Written>) -> Self {
        cells.into_iter().map(|it| it.0).collect()
    }
}

impl From<Cells> for Vec<Written> {
    fn from(cells: Cells) -> Self {
        cells.0.into_iter().map(Written).collect()
    }
}

impl fmt::Display for Cells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(of: &[&[u32]]) -> Cells {
        of.iter().map(|it| Extent::try_new(it).unwrap()).collect()
    }

    #[test]
    fn cells_are_in_order_where_none_comes_before_one_that_it_covers() {
        assert!(Cells::from(vec![8, 16, 40]).is_ordered() && Cells::default().is_ordered());
        assert!(cells(&[&[1, 8], &[4, 2], &[4, 8]]).is_ordered(), "two of which neither covers the other");
        assert!(cells(&[&[4, 2], &[1, 8], &[4, 8]]).is_ordered());
        for wrong in [Cells::from(vec![8, 8]), Cells::from(vec![16, 8]), Cells::from(vec![0, 8])] {
            assert!(!wrong.is_ordered(), "{wrong}");
        }
        assert!(!cells(&[&[1, 8], &[4, 2]]).is_ordered(), "none holds all");
        assert!(!cells(&[&[4, 8], &[1, 8]]).is_ordered() && !cells(&[&[1], &[4, 8]]).is_ordered());
    }

    #[test]
    fn a_sample_lies_in_the_first_cell_that_holds_it() {
        let lattice = cells(&[&[1, 8], &[4, 2], &[4, 8]]);
        let at = |edges: &[u32]| lattice.at(Extent::try_new(edges).unwrap());
        assert_eq!([at(&[1, 3]), at(&[2, 2]), at(&[2, 3]), at(&[5, 1])], [Some(0), Some(1), Some(2), None]);
        let padded = |edges: &[u32]| lattice.padded(Extent::try_new(edges).unwrap()).to_string();
        assert_eq!([padded(&[2, 2]), padded(&[5, 1])], ["4 × 2", "5 × 1"]);
        assert_eq!((lattice.n_axes(), lattice.edges(0), lattice.edges(1)), (2, vec![1, 4], vec![2, 8]));
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        for (cells, text) in [(Cells::from(vec![8, 16]), "[8,16]"), (cells(&[&[1, 8], &[4, 8]]), "[[1,8],[4,8]]")] {
            assert_eq!(serde_json::to_string(&cells).unwrap(), text);
            assert_eq!(serde_json::from_str::<Cells>(text).unwrap(), cells);
        }
        assert!(serde_json::from_str::<Cells>("[[1,0]]").is_err());
    }
}
