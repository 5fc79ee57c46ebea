//! Rows of samples that lie end to end.

use std::ops::Range;

use plimsoll_sampler::{PackedRows, Piece};

/// Samples, or parts of them, that lie end to end in a row; what they leave of it is empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Row<I> {
    /// What lies in the row, in its order.
    pub parts: Vec<RowPart<I>>,
    /// Positions of the row.
    pub row_len: u32,
}

/// A sample of a row, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowPart<I> {
    /// What the dataset gave.
    pub item: I,
    /// Its index in the dataset.
    pub index: usize,
    /// The positions of it that lie in the row: all, unless it is longer than a row and was cut.
    pub range: Range<usize>,
}

impl<I> Row<I> {
    /// How many positions are filled.
    pub fn n_filled(&self) -> usize {
        self.parts.iter().map(|it| it.range.len()).sum()
    }

    /// Where the parts of several rows lie, with boundaries, places and masks for a model; each piece is known by its row and its
    /// place among the row's parts.
    ///
    /// Rows of one [`Batches`](super::Batches) have one length.
    pub fn layout(rows: &[Self]) -> PackedRows<(usize, usize)> {
        let piece = |id, range: &Range<usize>| {
            let [start, end] = [range.start, range.end].map(|it| u32::try_from(it).unwrap_or(u32::MAX));
            Piece { id, start, end }
        };
        let of_row = |(row, it): (usize, &Self)| -> Vec<_> {
            it.parts.iter().enumerate().map(|(at, part)| piece((row, at), &part.range)).collect()
        };
        let pieces: Vec<_> = rows.iter().enumerate().map(of_row).collect();
        PackedRows::of(rows.first().map_or(0, |it| it.row_len), pieces.iter().map(Vec::as_slice))
    }
}
