//! Boundaries, positions and masks of packed rows, written into memory of the caller.

use super::piece::Piece;
use super::rows::PackedRows;

impl<I: Copy> PackedRows<I> {
    /// Writes where the segments of the block begin, when its rows are laid end to end, and where the last one ends: 0
    /// first, `rows · row_len` last, as kernels for variable lengths want it (`cu_seqlens`).
    ///
    /// What a row has empty is a segment of its own, so that every position is in one.
    ///
    /// # Panics
    ///
    /// When the block has 2^32 positions or more.
    pub fn cu_seqlens(&self, into: &mut Vec<u32>) {
        into.clear();
        into.push(0);
        self.segments(|_, start, end| {
            if start < end {
                into.push(u32::try_from(end).expect("a block of fewer than 2^32 positions"));
            }
        });
    }

    /// Writes each position's place in its piece, from 0; 0 where a row is empty.
    ///
    /// # Shapes
    ///
    /// `into`: `[rows, row_len]`.
    ///
    /// # Panics
    ///
    /// When `into` has another length.
    pub fn position_ids(&self, into: &mut [u32]) {
        self.check_len(into.len(), 1);
        self.segments(|number, start, end| {
            let places = into[start..end].iter_mut().zip(0..);
            places.for_each(|(into, place)| *into = if number == 0 { 0 } else { place });
        });
    }

    /// Writes the number of each position's piece in its row, from 1; 0 where a row is empty.
    ///
    /// # Shapes
    ///
    /// `into`: `[rows, row_len]`.
    ///
    /// # Panics
    ///
    /// When `into` has another length.
    pub fn segment_ids(&self, into: &mut [u32]) {
        self.check_len(into.len(), 1);
        self.segments(|number, start, end| into[start..end].fill(number));
    }

    /// Writes which positions each position attends to: those of its own piece, and no later ones where it is causal.
    ///
    /// What a row has empty attends to itself, so that no softmax is over nothing.
    ///
    /// # Shapes
    ///
    /// `into`: `[rows, row_len, row_len]`, queries before keys.
    ///
    /// # Panics
    ///
    /// When `into` has another length.
    pub fn block_mask(&self, causal: bool, into: &mut [bool]) {
        let row_len = self.row_len() as usize;
        self.check_len(into.len(), row_len);
        into.fill(false);
        self.segments(|_, start, end| {
            let row = start - start % row_len;
            for query in start..end {
                let last = if causal { query + 1 } else { end };
                into[query * row_len..][start - row..last - row].fill(true);
            }
        });
    }

    /// Lays down what the pieces hold, tokens or labels say: `place` writes a piece's values, one for each position, and
    /// what a row has empty is `padding`.
    ///
    /// ```
    /// use plimsoll_sampler::{PackConfig, PackPlanner, SampleIndex};
    ///
    /// let documents: [&[i32]; 3] = [&[1, 2, 3], &[4], &[5, 6]];
    /// let index = SampleIndex::try_new([documents.map(|it| it.len() as u32)])?;
    /// let rows = PackPlanner::try_new(index, PackConfig::new(4))?.plan_epoch(0);
    /// let mut tokens = vec![0; rows.len() * 4];
    /// rows.collate(-1, &mut tokens, |piece, into| {
    ///     into.copy_from_slice(&documents[piece.id as usize][piece.start as usize..piece.end as usize]);
    /// });
    /// tokens.sort_unstable();
    /// assert_eq!(tokens, [-1, -1, 1, 2, 3, 4, 5, 6]);
    /// # Ok::<(), plimsoll_sampler::SamplerError>(())
    /// ```
    ///
    /// # Shapes
    ///
    /// `into`: `[rows, row_len]`.
    ///
    /// # Panics
    ///
    /// When `into` has another length.
    pub fn collate<T: Copy>(&self, padding: T, into: &mut [T], mut place: impl FnMut(Piece<I>, &mut [T])) {
        self.check_len(into.len(), 1);
        for (pieces, row) in self.iter().zip(into.chunks_mut(self.row_len().max(1) as usize)) {
            let mut left = row;
            for piece in pieces {
                let (here, after) = left.split_at_mut(piece.len() as usize);
                place(*piece, here);
                left = after;
            }
            left.fill(padding);
        }
    }

    /// Calls with each segment of the block: its number in the row, from 1 and 0 for what is empty, and its bounds.
    fn segments(&self, mut each: impl FnMut(u32, usize, usize)) {
        for (row, pieces) in self.iter().enumerate() {
            let mut at = row * self.row_len() as usize;
            for (number, piece) in (1..).zip(pieces) {
                each(number, at, at + piece.len() as usize);
                at += piece.len() as usize;
            }
            each(0, at, (row + 1) * self.row_len() as usize);
        }
    }

    fn check_len(&self, len: usize, each: usize) {
        let expected = self.len() * self.row_len() as usize * each;
        assert_eq!(len, expected, "a block of {} rows of {} positions", self.len(), self.row_len());
    }
}
