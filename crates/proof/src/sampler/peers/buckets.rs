//! Buckets that are filled from a stream, and emptied one batch at a time.

use super::super::reference::{Filled, shuffled};
use crate::finder::Random;

/// Samples in all buckets: lhotse's default.
const BUFFER: usize = 20_000;

/// How samples come into buckets, and batches out of them.
pub(super) struct Buckets<B, F> {
    /// Number of buckets.
    pub(super) n: usize,
    /// The bucket of a sample.
    pub(super) bucket: B,
    /// Whether a batch of a bucket, the samples that it has and the longest of them, is complete.
    pub(super) is_complete: F,
}

impl<B: Fn(u32) -> usize, F: Fn(usize, u64, u32) -> bool> Buckets<B, F> {
    /// Takes samples in random order into the buckets, and out of them random samples of a bucket until a batch is complete: a
    /// bucket that is drawn, or else the nearest to it that has a whole batch, or else the nearest that has a sample.
    pub(super) fn fill(&self, lengths: &[u32], epoch: u64) -> Filled {
        let mut random = Random::new(epoch);
        let mut stream = shuffled(lengths.len(), &mut random).into_iter();
        let mut buckets = vec![Vec::new(); self.n];
        let (mut filled, mut n_wanted) = (Filled::default(), BUFFER);
        loop {
            for id in stream.by_ref().take(n_wanted) {
                buckets[(self.bucket)(id)].push(id);
            }
            let drawn = below(&mut random, self.n);
            let Some(chosen) = self
                .nearest(drawn, |at| self.has_whole(at, &buckets[at], lengths))
                .or_else(|| self.nearest(drawn, |at| !buckets[at].is_empty()))
            else {
                return filled;
            };
            n_wanted = self.take(chosen, &mut buckets[chosen], lengths, &mut random, &mut filled.ids);
            filled.offsets.push(filled.ids.len());
        }
    }

    /// Looks at a bucket, the one below it, the one above, and so on.
    fn nearest(&self, drawn: usize, is_good: impl Fn(usize) -> bool) -> Option<usize> {
        let around = |by: usize| [drawn.checked_sub(by), Some(drawn + by)].into_iter().flatten();
        (0..self.n).flat_map(around).find(|at| *at < self.n && is_good(*at))
    }

    fn has_whole(&self, at: usize, bucket: &[u32], lengths: &[u32]) -> bool {
        let mut longest = 0;
        (1..).zip(bucket).any(|(n, id)| {
            longest = lengths[*id as usize].max(longest);
            (self.is_complete)(at, n, longest)
        })
    }

    /// Moves a batch, or all that there is; says how many samples.
    fn take(
        &self,
        at: usize,
        bucket: &mut Vec<u32>,
        lengths: &[u32],
        random: &mut Random,
        ids: &mut Vec<u32>,
    ) -> usize {
        let (before, mut longest) = (ids.len(), 0);
        while !bucket.is_empty() {
            let id = bucket.swap_remove(below(random, bucket.len()));
            ids.push(id);
            longest = lengths[id as usize].max(longest);
            if (self.is_complete)(at, (ids.len() - before) as u64, longest) {
                break;
            }
        }
        ids.len() - before
    }
}

fn below(random: &mut Random, n: usize) -> usize {
    usize::try_from(((random.next_u64() >> 32) * n as u64) >> 32).unwrap_or(0)
}

/// Where buckets of equal sums of lengths begin, in growing order: the first begins at 0 and is not among them.
pub(super) fn equal_sums(sorted: &[u32], n_buckets: usize) -> Vec<usize> {
    let sum: u64 = sorted.iter().map(|length| u64::from(*length)).sum();
    let each = sum as f64 / n_buckets as f64;
    let (mut starts, mut so_far) = (Vec::new(), 0);
    for (at, length) in sorted.iter().enumerate() {
        if so_far as f64 > each {
            starts.push(at);
            so_far = 0;
        }
        so_far += u64::from(*length);
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_have_equal_sums() {
        assert_eq!(equal_sums(&[1, 1, 1, 1, 2, 2, 4, 4], 4), [5, 7]);
        assert_eq!(equal_sums(&[5; 4], 2), [3]);
    }

    #[test]
    fn the_nearest_is_looked_for_on_both_sides() {
        let buckets = Buckets { n: 5, bucket: |_| 0, is_complete: |_, _, _| true };
        assert_eq!(buckets.nearest(2, |at| at != 2), Some(1));
        assert_eq!(buckets.nearest(0, |at| at > 2), Some(3));
        assert_eq!(buckets.nearest(4, |_| false), None);
    }
}
