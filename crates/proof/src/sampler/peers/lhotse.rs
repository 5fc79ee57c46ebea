//! lhotse's `DynamicBucketingSampler`.

use super::super::reference::{Filled, shuffled};
use super::buckets::{Buckets, equal_sums};
use crate::finder::Random;

/// Samples from which the buckets are estimated: its default.
const LOOKED_AT: usize = 10_000;

/// Buckets of equal sums of lengths, by the first samples; a batch is complete when one more sample as long as its longest
/// would exceed the budget.
///
/// The last sample that comes into a batch may be longer than the others, so that the batch is above the budget.
pub(super) fn dynamic_bucketing<const BUCKETS: usize>(
    lengths: &[Vec<u32>; 1],
    [budget]: [u64; 1],
    epoch: u64,
) -> Filled {
    let [lengths] = lengths;
    let first = shuffled(lengths.len(), &mut Random::new(epoch));
    let mut sorted: Vec<u32> = first.iter().take(LOOKED_AT).map(|id| lengths[*id as usize]).collect();
    sorted.sort_unstable();
    let bounds: Vec<u32> = equal_sums(&sorted, BUCKETS).into_iter().map(|at| sorted[at]).collect();
    let buckets = Buckets {
        n: bounds.len() + 1,
        bucket: |id: u32| bounds.partition_point(|bound| *bound <= lengths[id as usize]),
        is_complete: |_, n: u64, longest: u32| (n + 1) * u64::from(longest) > budget,
    };
    buckets.fill(lengths, epoch)
}
