//! The tables in which a program keeps the graph of a step.
//!
//! They double at once when they are full, so that what they take is no combination of features; but the number of their
//! buckets follows from the number of nodes, and so many bytes for each bucket are one feature more.

use plimsoll_types::StepShape;

/// The most bytes that all tables of a graph take together for one bucket of each.
///
/// Burn's `AutodiffServer` and its memory management keep a step in hash tables by node, and visit it with more of them
/// (burn-autodiff 0.22.1). Of an LSTM unrolled on Flex, 82 nodes a position, each further bucket took 162 bytes, and 248 with
/// gradient checkpointing, which keeps what to compute again by node too. The rest is room for what takes more at another
/// moment of a step: a table that grows is there twice.
pub(crate) const fn bytes_per_bucket(checkpointing: bool) -> f64 {
    if checkpointing { 400.0 } else { 256.0 }
}

/// A graph of at most so many nodes is small: it is taken for that of a program that is not unrolled, which has as many
/// nodes for every shape, until a reading shows another. Whether its tables double in a step depends on those before it, for
/// which every bound has room ([`PredictorConfig::beside`](crate::PredictorConfig::beside)).
pub const SMALL_GRAPH: u64 = 512;

/// Returns the fewest buckets that a table of a graph has: of its nodes, one in twenty may have no gradient and no entry.
///
/// One in twenty is assumed: of that LSTM fewer than one in eleven have none, by the edges between which its tables double,
/// and nothing closer was measured.
pub(crate) fn fewest_buckets(nodes: u64) -> u64 {
    buckets(nodes - nodes / 20)
}

/// Returns the most buckets that a table of a graph has: beside its nodes, parameters are kept there for a while.
pub(crate) fn most_buckets(nodes: u64) -> u64 {
    if nodes == 0 { 0 } else { buckets(nodes.saturating_add(nodes / 32).saturating_add(64)) }
}

/// Returns how many buckets a hash table with so many entries has: the power of two of which they fill seven in eight at
/// most.
fn buckets(entries: u64) -> u64 {
    if entries == 0 { 0 } else { entries.saturating_mul(8).div_ceil(7).min(1 << 60).next_power_of_two() }
}

/// Returns the most nodes that a step of this shape has where one of another shape had so many.
///
/// A graph has so many nodes, so many for each sample or position, or both: nothing of it grows faster than the product of
/// what the shape is larger by along each axis.
pub(crate) fn most_nodes(asked: StepShape, seen: StepShape, nodes: u64) -> u64 {
    if seen.covers(asked) {
        return nodes;
    }
    let along_edges = asked.edges().iter().copied().zip(seen.edges().iter().copied());
    let along_all = along_edges.chain([(asked.samples, seen.samples)]);
    let (times, of) =
        along_all.filter(|(asked, seen)| seen < asked).fold((1_u128, 1_u128), |(times, of), (asked, seen)| {
            (times.saturating_mul(asked.into()), of.saturating_mul(seen.into()))
        });
    let most = u128::from(nodes.max(SMALL_GRAPH)).saturating_mul(times).div_ceil(of.max(1));
    u64::try_from(most).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_double_where_they_are_full() {
        assert_eq!([0, 1, 448, 449, 896, 897].map(buckets), [0, 2, 512, 1024, 1024, 2048]);
        assert_eq!([fewest_buckets(0), most_buckets(0)], [0, 0]);
        for nodes in [513, 14_336, 28_930, 30_898, u64::MAX] {
            let (fewest, most) = (fewest_buckets(nodes), most_buckets(nodes));
            assert!(fewest <= buckets(nodes) && buckets(nodes) <= most && most <= 2 * fewest, "{nodes}");
        }
    }

    #[test]
    fn a_larger_shape_has_as_many_more_nodes_as_it_is_larger_at_most() {
        let seen = StepShape::new(4, 64);
        let nodes = |samples, edge| most_nodes(StepShape::new(samples, edge), seen, 12_800);
        assert_eq!([nodes(4, 64), nodes(1, 16)], [12_800; 2], "what it covers has no more");
        assert_eq!([nodes(4, 96), nodes(6, 64), nodes(6, 96), nodes(6, 32)], [19_200, 19_200, 28_800, 19_200]);
        assert_eq!(
            most_nodes(StepShape::new(4, 96), seen, 0),
            768,
            "a graph that was small may have been nearly large"
        );
        assert_eq!(most_nodes(StepShape::new(u32::MAX, u32::MAX), seen, u64::MAX), u64::MAX);
    }
}
