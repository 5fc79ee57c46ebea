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
    let rounded = rounded(lengths.iter().copied(), multiple)?;
    let sum: u64 = lengths.iter().copied().map(u64::from).sum();
    let mut partition = Partition::new(&counted(rounded));
    while partition.n_groups() < k as usize && partition.refine() {}
    let padding = (partition.cost() - sum) as f64 / sum as f64;
    Ok(Edges { edges: partition.edges(), padding })
}

/// Rounds lengths up to multiples; there is at least one.
fn rounded(lengths: impl Iterator<Item = u32>, multiple: u32) -> Result<Vec<u32>, EdgesError> {
    if multiple == 0 {
        return Err(EdgesError::BelowOne("multiple"));
    }
    let round = |(index, length): (usize, u32)| match length.checked_next_multiple_of(multiple) {
        Some(0) => Err(EdgesError::ZeroLength { index }),
        Some(edge) => Ok(edge),
        None => Err(EdgesError::TooLong { length, multiple }),
    };
    let rounded: Vec<u32> = lengths.enumerate().map(round).collect::<Result<_, _>>()?;
    if rounded.is_empty() { Err(EdgesError::NoLength) } else { Ok(rounded) }
}

/// Each of the values once, smallest first, and how often it is there.
fn counted<T: Copy + Ord>(mut values: Vec<T>) -> Vec<(T, u64)> {
    values.sort_unstable();
    values.chunk_by(|a, b| a == b).map(|equal| (equal[0], equal.len() as u64)).collect()
}
