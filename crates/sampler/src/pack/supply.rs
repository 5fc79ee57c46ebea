//! Pieces by their lengths, from which the longest that fits is taken in constant time.

use super::piece::Piece;

/// The longest length up to which each length has a bucket of its own: the counters fit into the nearest cache.
/// With longer pieces a bucket is several lengths wide, and not every piece of the bucket of a gap is held against it.
const LENGTHS: u32 = 1 << 13;

/// Pieces by their lengths.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Supply<I> {
    shift: u32,
    sorted: Vec<Piece<I>>,
    buckets: Vec<Bucket>,
    /// All buckets from here on are empty.
    end: usize,
    /// A bit for each bucket that is not empty, and one for each word of these that is not 0.
    words: Vec<u64>,
    summary: Vec<u64>,
}

/// Where the pieces of a bucket begin, and where those that are left end: 0 where there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Bucket {
    start: u32,
    end: u32,
}

impl<I: Copy + Default> Supply<I> {
    /// Takes the pieces in place of what was left; those of one bucket keep their order.
    pub(super) fn fill(&mut self, pieces: &[Piece<I>]) {
        while self.longest().is_some() {}
        let most = pieces.iter().map(Piece::len).max().unwrap_or(0);
        self.shift = (u32::BITS - most.saturating_sub(1).leading_zeros()).saturating_sub(LENGTHS.ilog2());
        self.make_room((most >> self.shift) as usize + 1, pieces.len());
        for piece in pieces {
            let bucket = (piece.len() >> self.shift) as usize;
            self.words[bucket / 64] |= 1 << (bucket % 64);
            self.buckets[bucket].end += 1;
        }
        self.divide();
        for piece in pieces {
            let end = &mut self.buckets[(piece.len() >> self.shift) as usize].end;
            self.sorted[*end as usize] = *piece;
            *end += 1;
        }
    }

    fn make_room(&mut self, n_buckets: usize, n_pieces: usize) {
        self.end = n_buckets;
        self.buckets.resize(n_buckets, Bucket::default());
        self.words.resize(n_buckets.div_ceil(64), 0);
        self.summary.resize(self.words.len().div_ceil(64), 0);
        self.sorted.resize(n_pieces, Piece::default());
    }

    /// Lets each bucket begin where the one before ends; the empty ones, most of them in a small window, are passed over.
    fn divide(&mut self) {
        let mut start = 0;
        for (at, word) in self.words.iter().enumerate() {
            self.summary[at / 64] |= u64::from(*word != 0) << (at % 64);
            let mut bits = *word;
            while bits != 0 {
                let bucket = &mut self.buckets[at * 64 + bits.trailing_zeros() as usize];
                bucket.start = start;
                start += std::mem::replace(&mut bucket.end, start);
                bits &= bits - 1;
            }
        }
    }

    /// Takes the longest piece, and says how long it is.
    #[inline]
    pub(super) fn longest(&mut self) -> Option<(Piece<I>, u32)> {
        self.below(self.end)
    }

    /// Takes the longest piece that is no longer than this, and says how long it is.
    ///
    /// Where buckets are wide, it is one of the last bucket whose pieces all fit, unless the next piece of the one after
    /// fits.
    #[inline]
    pub(super) fn at_most(&mut self, length: u32) -> Option<(Piece<I>, u32)> {
        let bucket = (length >> self.shift) as usize;
        if bucket >= self.end {
            return self.longest();
        }
        let Bucket { start, end } = self.buckets[bucket];
        let fits = self.shift == 0 || start < end && self.sorted[end as usize - 1].len() <= length;
        self.below(bucket + usize::from(fits))
    }

    /// Takes a piece of the last of these first buckets that is not empty.
    #[inline]
    fn below(&mut self, n_buckets: usize) -> Option<(Piece<I>, u32)> {
        let bucket = self.last_before(n_buckets)?;
        if n_buckets == self.end {
            self.end = bucket + 1;
        }
        let Bucket { start, end } = &mut self.buckets[bucket];
        *end -= 1;
        let piece = self.sorted[*end as usize];
        if end == start {
            *end = 0;
            self.words[bucket / 64] &= !(1 << (bucket % 64));
            if self.words[bucket / 64] == 0 {
                self.summary[bucket / 4096] &= !(1 << (bucket / 64 % 64));
            }
        }
        // A bucket of one length says it before the piece is read, which the next search need not wait for.
        #[expect(clippy::cast_possible_truncation, reason = "a bucket is no number above the longest length")]
        let length = if self.shift == 0 { bucket as u32 } else { piece.len() };
        Some((piece, length))
    }

    /// The last bucket before this one that is not empty.
    #[inline]
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
            lengths in prop::collection::vec(1u32..=8192, 0..300), gaps in prop::collection::vec(1u32..9000, 0..400)
        ) {
            let pieces: Vec<_> = (0..).zip(&lengths).map(|(id, end)| Piece { id, start: 0, end: *end }).collect();
            let mut supply = Supply::default();
            // What the window before has left over is gone.
            supply.fill(&pieces[pieces.len() / 2..]);
            supply.longest();
            supply.fill(&pieces);
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
        fn wide_buckets_are_taken_from_above(
            mut lengths in prop::collection::vec(1u32..100_000, 1..300), gap in 1u32..100_000
        ) {
            lengths.push(100_000);
            let pieces: Vec<_> = (0..).zip(&lengths).map(|(id, end)| Piece { id, start: 0, end: *end }).collect();
            let mut supply = Supply::default();
            supply.fill(&pieces);
            prop_assert_eq!(supply.shift, 4);
            let taken = supply.at_most(gap).map_or(0, |it| it.1);
            let surely = lengths.iter().map(|length| length >> 4).filter(|bucket| *bucket < gap >> 4).max();
            prop_assert!(taken <= gap && surely.is_none_or(|bucket| bucket <= taken >> 4), "{} of {}", taken, gap);
        }
    }
}
