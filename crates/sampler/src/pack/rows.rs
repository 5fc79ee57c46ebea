//! Rows of pieces.

use super::load::PackLoad;
use super::piece::Piece;

/// Rows of one length, each filled from its start; what is left at its end is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedRows<I = u32> {
    row_len: u32,
    pieces: Vec<Piece<I>>,
    /// Where each row begins and ends among the pieces.
    spans: Vec<(u32, u32)>,
}

impl<I: Copy> PackedRows<I> {
    /// No rows.
    pub(crate) const fn new(row_len: u32) -> Self {
        Self { row_len, pieces: Vec::new(), spans: Vec::new() }
    }

    /// Rows of these pieces, of a plan of one's own.
    ///
    /// # Panics
    ///
    /// When the pieces of one have more positions than a row.
    pub fn of<'a>(row_len: u32, rows: impl IntoIterator<Item = &'a [Piece<I>]>) -> Self
    where
        I: 'a,
    {
        let mut of = Self::new(row_len);
        for row in rows {
            let n_positions = load(row_len, row).positions;
            assert!(n_positions <= row_len.into(), "{n_positions} positions in a row of {row_len}");
            of.push(row);
        }
        of
    }

    /// Positions of a row.
    pub const fn row_len(&self) -> u32 {
        self.row_len
    }

    /// Number of rows.
    pub const fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is no row.
    pub const fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The pieces of a row in order, if there are so many rows.
    pub fn get(&self, row: usize) -> Option<&[Piece<I>]> {
        self.spans.get(row).map(|span| self.pieces(*span))
    }

    /// The pieces of every row.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[Piece<I>]> + Clone {
        self.spans.iter().map(|span| self.pieces(*span))
    }

    /// What all rows cost.
    pub fn load(&self) -> PackLoad {
        self.iter().map(|row| load(self.row_len, row)).fold(PackLoad::default(), |sum, row| sum + row)
    }

    /// Appends a row.
    pub(crate) fn push(&mut self, row: &[Piece<I>]) {
        let start = self.end();
        self.pieces.extend_from_slice(row);
        self.spans.push((start, self.end()));
    }

    /// Takes room for so many pieces.
    pub(super) fn reserve(&mut self, n_pieces: usize) {
        self.pieces.reserve_exact(n_pieces);
    }

    /// Appends rows.
    pub(super) fn append(&mut self, more: &Self) {
        more.iter().for_each(|row| self.push(row));
    }

    /// Appends a piece to the row that is not closed yet.
    pub(super) fn push_piece(&mut self, piece: Piece<I>) {
        self.pieces.push(piece);
    }

    /// Closes the row that pieces were pushed to.
    pub(super) fn close(&mut self) {
        let start = self.spans.last().map_or(0, |(_, end)| *end);
        self.spans.push((start, self.end()));
    }

    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        self.spans.clear();
    }

    /// The rows, to be put in another order.
    pub(super) const fn spans(&mut self) -> &mut Vec<(u32, u32)> {
        &mut self.spans
    }

    /// Puts the rows into this order.
    pub(super) fn arrange(&mut self, order: &[usize]) {
        self.spans = order.iter().map(|row| self.spans[*row]).collect();
    }

    /// The pieces of a span.
    fn pieces(&self, (start, end): (u32, u32)) -> &[Piece<I>] {
        &self.pieces[start as usize..end as usize]
    }

    #[expect(clippy::cast_possible_truncation, reason = "a planner refuses more pieces than 32 bits can count")]
    const fn end(&self) -> u32 {
        self.pieces.len() as u32
    }
}

/// What one row costs.
pub(super) fn load<I>(row_len: u32, row: &[Piece<I>]) -> PackLoad {
    let lengths = row.iter().map(|piece| u64::from(piece.len()));
    PackLoad {
        rows: 1,
        block: row_len.into(),
        positions: lengths.clone().sum(),
        squares: lengths.map(|length| length * length).sum(),
    }
}
