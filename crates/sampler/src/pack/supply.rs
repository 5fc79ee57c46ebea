//! Pieces by their lengths, from which the longest that fits is taken in constant time.

use super::piece::Piece;

/// Buckets of lengths at most: one for each length up to here, of which the counters fit into the nearest cache.
/// In longer rows a bucket is several lengths wide, and not every piece of the bucket of a gap is held against it.
const BUCKETS: u32 = 1 << 13;

/// Pieces by their lengths.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Supply {
    shift: u32,
    sorted: Vec<Piece>,
    /// Where the pieces of each bucket begin and, after as many as are left, end.
    starts: Vec<u32>,
    ends: Vec<u32>,
    /// A bit for each bucket that is not empty, and one for each word of these that is not 0.
    words: Vec<u64>,
    summary: Vec<u64>,
}

impl Supply {
    /// Takes the pieces, none of which is longer than `most`; those of one bucket keep their order.
    pub(super) fn fill(&mut self, pieces: &[Piece], most: u32) {
        self.shift = (u32::BITS - most.leading_zeros()).saturating_sub(BUCKETS.ilog2());
        let n_buckets = (most >> self.shift) as usize + 1;
        self.starts.clear();
        self.starts.resize(n_buckets, 0);
        for piece in pieces {
            self.starts[(piece.len() >> self.shift) as usize] += 1;
        }
        let mut start = 0;
        for count in &mut self.starts {
            (*count, start) = (start, start + *count);
        }
        self.ends.clone_from(&self.starts);
        self.sorted.clear();
        self.sorted.resize(pieces.len(), Piece::default());
        for piece in pieces {
            let end = &mut self.ends[(piece.len() >> self.shift) as usize];
            self.sorted[*end as usize] = *piece;
            *end += 1;
        }
        self.mark();
    }

    fn mark(&mut self) {
        let n_words = self.starts.len().div_ceil(64);
        self.words.clear();
        self.words.resize(n_words, 0);
        self.summary.clear();
        self.summary.resize(n_words.div_ceil(64), 0);
        for (bucket, (start, end)) in self.starts.iter().zip(&self.ends).enumerate() {
            self.words[bucket / 64] |= u64::from(start < end) << (bucket % 64);
        }
        for (word, bits) in self.words.iter().enumerate() {
            self.summary[word / 64] |= u64::from(*bits != 0) << (word % 64);
        }
    }

    /// Takes the longest piece, and says how long it is.
    pub(super) fn longest(&mut self) -> Option<(Piece, u32)> {
        self.below(self.starts.len())
    }

    /// Takes the longest piece that is no longer than this, and says how long it is.
    ///
    /// Where buckets are wide, it is one of the last bucket whose pieces all fit, unless the next piece of the one after
    /// fits.
    pub(super) fn at_most(&mut self, length: u32) -> Option<(Piece, u32)> {
        let bucket = ((length >> self.shift) as usize).min(self.starts.len() - 1);
        let fits = self.shift == 0
            || self.starts[bucket] < self.ends[bucket] && self.sorted[self.ends[bucket] as usize - 1].len() <= length;
        self.below(bucket + usize::from(fits))
    }

    /// Takes a piece of the last of these first buckets that is not empty.
    fn below(&mut self, n_buckets: usize) -> Option<(Piece, u32)> {
        let bucket = self.last_before(n_buckets)?;
        self.ends[bucket] -= 1;
        let end = self.ends[bucket];
        if end == self.starts[bucket] {
            self.words[bucket / 64] &= !(1 << (bucket % 64));
            if self.words[bucket / 64] == 0 {
                self.summary[bucket / 4096] &= !(1 << (bucket / 64 % 64));
            }
        }
        let piece = self.sorted[end as usize];
        // A bucket of one length says it before the piece is read, which the next search need not wait for.
        #[expect(clippy::cast_possible_truncation, reason = "a bucket is no number above the longest length")]
        let length = if self.shift == 0 { bucket as u32 } else { piece.len() };
        Some((piece, length))
    }

    /// The last bucket before this one that is not empty.
    fn last_before(&self, bucket: usize) -> Option<usize> {
        let below = |bits: u64, n: usize| bits & ((1 << n) - 1);
        let word = bucket / 64;
        let bits = self.words.get(word).map_or(0, |bits| below(*bits, bucket % 64));
        if bits != 0 {
            return Some(word * 64 + bits.ilog2() as usize);
        }
        let mut at = word / 64;
        let mut bits = self.summary.get(at).map_or(0, |bits| below(*bits, word % 64));
        while bits == 0 {
            at = at.checked_sub(1)?;
            bits = self.summary[at];
        }
        let word = at * 64 + bits.ilog2() as usize;
        Some(word * 64 + self.words[word].ilog2() as usize)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_longest_that_fits_is_taken(
            lengths in prop::collection::vec(1u32..6000, 0..300), gaps in prop::collection::vec(1u32..6000, 0..400)
        ) {
            let pieces: Vec<_> = (0..).zip(&lengths).map(|(id, end)| Piece { id, start: 0, end: *end }).collect();
            let mut supply = Supply::default();
            supply.fill(&pieces, 6000);
            let mut left = lengths;
            for gap in gaps {
                let expected = left.iter().copied().filter(|length| *length <= gap).max();
                prop_assert_eq!(supply.at_most(gap).map(|it| it.1), expected);
                if let Some(at) = left.iter().position(|length| Some(*length) == expected) {
                    left.swap_remove(at);
                }
            }
            prop_assert_eq!(supply.longest().map(|it| it.1), left.into_iter().max());
        }

        #[test]
        fn wide_buckets_are_taken_from_above(lengths in prop::collection::vec(1u32..100_000, 1..300), gap in 1u32..100_000) {
            let pieces: Vec<_> = (0..).zip(&lengths).map(|(id, end)| Piece { id, start: 0, end: *end }).collect();
            let mut supply = Supply::default();
            supply.fill(&pieces, 100_000);
            prop_assert_eq!(supply.shift, 4);
            let taken = supply.at_most(gap).map_or(0, |it| it.1);
            let surely = lengths.iter().map(|length| length >> 4).filter(|bucket| *bucket < gap >> 4).max();
            prop_assert!(taken <= gap && surely.is_none_or(|bucket| bucket <= taken >> 4), "{} of {}", taken, gap);
        }
    }
}
