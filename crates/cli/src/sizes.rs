//! Which sizes a step may have.

use plimsoll_policy::Bounds;

/// Which sizes a step may have.
#[derive(Clone, Debug)]
pub(crate) enum Sizes {
    /// Samples are cut to an edge that the policy chooses.
    Cut(Bounds),
    /// Samples have lengths, and are padded to the edges of a lattice.
    Padded(Buckets),
}

/// Edges, and the largest micro-batch of any of them.
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    pub(crate) edges: Vec<u32>,
    pub(crate) batch_max: u32,
}

impl Sizes {
    /// Returns the smallest and the largest micro-batch.
    pub(crate) const fn batches(&self) -> (u32, u32) {
        match self {
            Self::Cut(bounds) => (bounds.batch_min, bounds.batch_max),
            Self::Padded(buckets) => (1, buckets.batch_max),
        }
    }

    /// Returns the largest edge.
    pub(crate) fn largest_edge(&self) -> u32 {
        match self {
            Self::Cut(bounds) => bounds.patch_max,
            Self::Padded(buckets) => buckets.edges.last().copied().unwrap_or(1),
        }
    }
}
