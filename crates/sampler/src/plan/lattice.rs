//! Which shapes there are.

use crate::PlanError;

/// The edges that lengths are padded to on each axis; an axis without edges is padded to the longest of the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lattice<const AXES: usize>([Vec<u32>; AXES]);

impl<const AXES: usize> Default for Lattice<AXES> {
    fn default() -> Self {
        Self([const { Vec::new() }; AXES])
    }
}

impl<const AXES: usize> Lattice<AXES> {
    /// Accepts the edges of each axis in growing order.
    ///
    /// # Errors
    ///
    /// [`PlanError::Edges`] when an edge is not above the one before it, or is zero.
    pub fn try_new(edges: [Vec<u32>; AXES]) -> Result<Self, PlanError> {
        for (axis, edges) in edges.iter().enumerate() {
            let before = [0].into_iter().chain(edges.iter().copied());
            if let Some((before, edge)) = before.zip(edges.iter().copied()).find(|(before, edge)| before >= edge) {
                return Err(PlanError::Edges { axis, edge, before });
            }
        }
        Ok(Self(edges))
    }

    /// The smallest cell that holds these lengths, if there is one.
    pub fn cell(&self, lengths: [u32; AXES]) -> Option<[u32; AXES]> {
        let mut cell = lengths;
        for (length, edges) in cell.iter_mut().zip(&self.0) {
            if !edges.is_empty() {
                *length = *edges.get(edges.partition_point(|edge| edge < length))?;
            }
        }
        Some(cell)
    }

    /// What a length is padded to on one axis; one that is above all edges stays.
    pub(super) fn padded(&self, axis: usize, length: u32) -> u32 {
        self.0[axis].get(self.rank(axis, length)).copied().unwrap_or(length)
    }

    /// How many edges a length is above.
    pub(super) fn rank(&self, axis: usize, length: u32) -> usize {
        self.0[axis].partition_point(|edge| *edge < length)
    }

    /// The edges of an axis, in growing order; none where every length is its own.
    pub(super) fn edges(&self, axis: usize) -> &[u32] {
        &self.0[axis]
    }

    /// Number of edges on an axis; 0 where every length is its own.
    pub(super) const fn n_edges(&self, axis: usize) -> usize {
        self.0[axis].len()
    }

    /// The longest length that the edges of each axis hold; none where there are no edges.
    pub(crate) fn last_edges(&self) -> [Option<u32>; AXES] {
        self.0.each_ref().map(|edges| edges.last().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_go_to_the_next_edge() {
        let lattice = Lattice::try_new([vec![], vec![8, 16, 24]]).unwrap();
        assert_eq!(lattice.cell([5, 1]), Some([5, 8]));
        assert_eq!(lattice.cell([5, 16]), Some([5, 16]));
        assert_eq!(lattice.cell([5, 25]), None);
        assert_eq!([1, 8, 9, 25].map(|length| lattice.padded(1, length)), [8, 8, 16, 25]);
        assert_eq!((lattice.padded(0, 5), lattice.rank(1, 16), lattice.rank(1, 25)), (5, 1, 3));
    }

    #[test]
    fn edges_that_do_not_grow_are_refused() {
        let error = Lattice::try_new([vec![8, 16, 16]]).unwrap_err();
        assert_eq!(error.to_string(), "build a lattice: on axis 0, edge 16 follows 16, edges must grow from above 0");
        assert!(Lattice::try_new([vec![0, 16]]).is_err());
    }
}
