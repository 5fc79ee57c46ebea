//! `NeMo`'s buckets with a batch size for each.

use super::super::reference::Filled;
use super::buckets::{Buckets, equal_sums};

const BUCKETS: usize = 30;
const SUB_BUCKETS: usize = 2;

/// Buckets of equal sums of lengths over all samples, each with as many samples a batch as fit when all are as long as the
/// bucket allows.
pub(super) fn bucketing(lengths: &[Vec<u32>; 1], [budget]: [u64; 1], epoch: u64) -> Filled {
    let [lengths] = lengths;
    let mut sorted = lengths.clone();
    sorted.sort_unstable();
    let bounds = bounds(&sorted, BUCKETS);
    let sizes: Vec<u64> = bounds.iter().map(|bound| (budget / u64::from(*bound)).max(1)).collect();
    let buckets = Buckets {
        n: bounds.len(),
        bucket: |id: u32| bounds.partition_point(|bound| *bound < lengths[id as usize]),
        is_complete: |at: usize, n: u64, _| n >= sizes[at],
    };
    buckets.fill(lengths, epoch)
}

/// The same on the first axis; each bucket is divided into two of equal sums on the second axis, or, where several buckets have
/// one bound, into two for each of these.
///
/// The tool leaves out samples whose lengths differ by more than four standard deviations; here they stay.
pub(super) fn bucketing_2d(lengths: &[Vec<u32>; 2], budget: [u64; 2], epoch: u64) -> Filled {
    let mut sorted: Vec<[u32; 2]> =
        lengths[0].iter().copied().zip(lengths[1].iter().copied()).map(<[u32; 2]>::from).collect();
    sorted.sort_unstable();
    let first: Vec<u32> = sorted.iter().map(|it| it[0]).collect();
    let mut cells = Vec::new();
    let (all, mut left) = (all_bounds(&first, BUCKETS), &sorted[..]);
    for same in all.chunk_by(|a, b| a == b) {
        let (bucket, after) = left.split_at(left.partition_point(|it| it[0] <= same[0]));
        let mut second: Vec<u32> = bucket.iter().map(|it| it[1]).collect();
        second.sort_unstable();
        cells.extend(bounds(&second, SUB_BUCKETS * same.len()).into_iter().map(|bound| [same[0], bound]));
        left = after;
    }
    let fits = |cell: &[u32; 2]| cell.iter().zip(budget).map(|(bound, budget)| budget / u64::from(*bound)).min();
    let sizes: Vec<u64> = cells.iter().map(|cell| fits(cell).unwrap_or(0).max(1)).collect();
    let buckets = Buckets {
        n: cells.len(),
        bucket: |id: u32| {
            let [a, b] = lengths.each_ref().map(|axis| axis[id as usize]);
            let start = cells.partition_point(|cell| cell[0] < a);
            start + cells[start..].partition_point(|cell| cell[0] == cells[start][0] && cell[1] < b)
        },
        is_complete: |at: usize, n: u64, _| n >= sizes[at],
    };
    buckets.fill(&lengths[0], epoch)
}

/// The longest that each bucket holds, each once.
fn bounds(sorted: &[u32], n_buckets: usize) -> Vec<u32> {
    let mut bounds = all_bounds(sorted, n_buckets);
    bounds.dedup();
    bounds
}

fn all_bounds(sorted: &[u32], n_buckets: usize) -> Vec<u32> {
    equal_sums(sorted, n_buckets).into_iter().map(|at| sorted[at]).chain(sorted.last().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_what_fits_if_all_are_as_long_as_the_bucket_allows() {
        let lengths = [(1..=3_000).collect::<Vec<u32>>()];
        let filled = bucketing(&lengths, [30_000], 0);
        let mut sorted = lengths[0].clone();
        sorted.sort_unstable();
        let bounds = bounds(&sorted, BUCKETS);
        for ids in filled.iter() {
            let longest = ids.iter().map(|id| lengths[0][*id as usize]).max().unwrap_or(0);
            let bound = bounds[bounds.partition_point(|bound| *bound < longest)];
            assert!(ids.len() as u64 * u64::from(bound) <= 30_000, "{} of {longest}", ids.len());
        }
    }
}
