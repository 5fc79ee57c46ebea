//! A micro-batch of any method.

use plimsoll_sampler::StepBatch;

/// A micro-batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Its samples, row after row.
    pub ids: Vec<u64>,
    /// Positions of each row.
    pub edge: u32,
    /// How many samples lie in each row, where they are packed; else each has one of its own.
    pub packed: Option<Vec<u32>>,
}

impl Batch {
    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        self.packed.as_ref().map_or(self.ids.len(), Vec::len)
    }

    /// Positions with padding.
    pub fn padded(&self) -> u64 {
        self.n_rows() as u64 * u64::from(self.edge)
    }
}

impl From<StepBatch<1>> for Batch {
    fn from(StepBatch { ids, cell: [edge] }: StepBatch<1>) -> Self {
        Self { ids, edge, packed: None }
    }
}
