//! Which sizes a step may have.

use plimsoll_policy::Bounds;
use plimsoll_types::{Cells, Extent};

/// Which sizes a step may have.
#[derive(Clone, Debug)]
pub(crate) enum Sizes {
    /// Samples are cut to an edge that the policy chooses.
    Cut(Bounds),
    /// Samples have lengths, and are padded to the cells of a lattice.
    Padded(Buckets),
}

/// Cells, and the largest micro-batch of any of them.
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    pub(crate) cells: Cells,
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

    /// Returns the largest extent.
    pub(crate) fn largest(&self) -> Extent {
        match self {
            Self::Cut(bounds) => bounds.patch_max.into(),
            Self::Padded(buckets) => buckets.cells.last().copied().unwrap_or(Extent::new(1)),
        }
    }
}
