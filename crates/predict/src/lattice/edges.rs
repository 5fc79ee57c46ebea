//! The edges of a lattice.

use plimsoll_types::Fraction;

use super::partition::Partition;
use crate::PredictError;

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
/// [`PredictError::NoLength`], [`PredictError::ZeroLength`] and [`PredictError::TooLong`] for the lengths,
/// [`PredictError::NoCell`] when `k` or `multiple` is zero.
///
/// # Sources
///
/// A partition of sorted items into contiguous groups; its cost satisfies the quadrangle inequality, so that the best
/// split only moves right (Yao, *Efficient dynamic programming using quadrangle inequalities*, STOC 1980).
pub fn edges(lengths: &[u32], k: u32, multiple: u32) -> Result<Edges, PredictError> {
    if k == 0 {
        return Err(PredictError::NoCell("k"));
    }
    let lengths = Lengths::try_new(lengths, multiple)?;
    let mut partition = lengths.partition();
    while partition.n_groups() < k as usize && partition.refine() {}
    Ok(lengths.edges(&partition))
}

/// Returns the fewest edges that pad the given lengths by at most `max_padding`, padded positions over real ones.
///
/// # Errors
///
/// As [`edges`], and [`PredictError::TooCoarse`] when rounding to `multiple` pads more than that by itself.
pub fn fewest_edges(lengths: &[u32], max_padding: Fraction, multiple: u32) -> Result<Edges, PredictError> {
    let lengths = Lengths::try_new(lengths, multiple)?;
    let (padding, max_padding) = (lengths.padding(lengths.rounded), max_padding.get());
    if padding > max_padding {
        return Err(PredictError::TooCoarse { max_padding, padding, multiple });
    }
    let mut partition = lengths.partition();
    while lengths.padding(partition.cost()) > max_padding && partition.refine() {}
    Ok(lengths.edges(&partition))
}

/// How many samples there are of each rounded length.
struct Lengths {
    /// Rounded lengths, smallest first, and how many samples have one.
    counts: Vec<(u32, u64)>,
    /// Sum of the lengths.
    sum: u64,
    /// Sum of the rounded lengths: the least that any edges come to.
    rounded: u64,
}

impl Lengths {
    fn try_new(lengths: &[u32], multiple: u32) -> Result<Self, PredictError> {
        if multiple == 0 {
            return Err(PredictError::NoCell("multiple"));
        }
        let mut rounded = Vec::with_capacity(lengths.len());
        for (index, length) in lengths.iter().copied().enumerate() {
            let edge = length.checked_next_multiple_of(multiple);
            match edge {
                Some(0) => return Err(PredictError::ZeroLength { index }),
                Some(edge) => rounded.push(edge),
                None => return Err(PredictError::TooLong { length, multiple }),
            }
        }
        rounded.sort_unstable();
        let counts: Vec<_> = rounded.chunk_by(|a, b| a == b).map(|equal| (equal[0], equal.len() as u64)).collect();
        if counts.is_empty() {
            return Err(PredictError::NoLength);
        }
        let sum = |lengths: &[u32]| lengths.iter().copied().map(u64::from).sum();
        Ok(Self { counts, sum: sum(lengths), rounded: sum(&rounded) })
    }

    fn partition(&self) -> Partition {
        Partition::new(&self.counts)
    }

    fn padding(&self, padded: u64) -> f64 {
        (padded - self.sum) as f64 / self.sum as f64
    }

    fn edges(&self, partition: &Partition) -> Edges {
        Edges { edges: partition.edges(), padding: self.padding(partition.cost()) }
    }
}
