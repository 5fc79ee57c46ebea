//! The edges that samples are padded to.

mod lattice;
mod partition;

pub use self::lattice::cells;
use self::partition::Partition;
use crate::EdgesError;

/// Edges to which samples are padded, and what that costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Edges {
    /// Edges, smallest first; the last one holds the longest sample.
    pub edges: Vec<u32>,
    /// Padded positions over real ones: 0.05 is 5 % more than the lengths' sum.
    pub padding: f64,
}

/// Returns the `k` edges, multiples of `multiple`, that pad the given lengths least.
///
/// Fewer when the lengths have fewer than `k` distinct multiples.
/// The optimum is exact for lengths that are padded to one dimension; among equals, which is returned is fixed.
/// With `d` distinct multiples it takes `O(d log d)` for each edge, and `4 · k · d` bytes.
///
/// # Errors
///
/// [`EdgesError::NoLength`], [`EdgesError::ZeroLength`] and [`EdgesError::TooLong`] for the lengths,
/// [`EdgesError::BelowOne`] when `k` or `multiple` is zero.
///
/// # Sources
///
/// A partition of sorted items into contiguous groups; its cost satisfies the quadrangle inequality, so that the best
/// split only moves right (Yao, *Efficient dynamic programming using quadrangle inequalities*, STOC 1980).
pub fn edges(lengths: &[u32], k: u32, multiple: u32) -> Result<Edges, EdgesError> {
    if k == 0 {
        return Err(EdgesError::BelowOne("k"));
    }
    let lengths = Lengths::try_new(lengths, multiple)?;
    let mut partition = lengths.partition();
    while partition.n_groups() < k as usize && partition.refine() {}
    Ok(lengths.edges(&partition))
}

/// How many samples there are of each rounded length.
struct Lengths {
    /// Rounded lengths, smallest first, and how many samples have one.
    counts: Vec<(u32, u64)>,
    /// Sum of the lengths.
    sum: u64,
}

impl Lengths {
    fn try_new(lengths: &[u32], multiple: u32) -> Result<Self, EdgesError> {
        if multiple == 0 {
            return Err(EdgesError::BelowOne("multiple"));
        }
        let mut rounded = Vec::with_capacity(lengths.len());
        for (index, length) in lengths.iter().copied().enumerate() {
            let edge = length.checked_next_multiple_of(multiple);
            match edge {
                Some(0) => return Err(EdgesError::ZeroLength { index }),
                Some(edge) => rounded.push(edge),
                None => return Err(EdgesError::TooLong { length, multiple }),
            }
        }
        rounded.sort_unstable();
        let counts: Vec<_> = rounded.chunk_by(|a, b| a == b).map(|equal| (equal[0], equal.len() as u64)).collect();
        if counts.is_empty() {
            return Err(EdgesError::NoLength);
        }
        Ok(Self { counts, sum: lengths.iter().copied().map(u64::from).sum() })
    }

    fn partition(&self) -> Partition {
        Partition::new(&self.counts)
    }

    fn edges(&self, partition: &Partition) -> Edges {
        let padding = (partition.cost() - self.sum) as f64 / self.sum as f64;
        Edges { edges: partition.edges(), padding }
    }
}
