//! Filling rows.

use std::cmp::Reverse;

use super::config::PackConfig;
use super::piece::Piece;
use super::rows::{PackedRows, load};
use super::supply::Supply;
use crate::hash::Rng;

/// A row that has less than this part of itself empty is full.
const FULL: u32 = 512;

/// Room for one window, used again for the next.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Filling<I = u32> {
    /// The pieces of the window, those that are carried first.
    pub(super) pieces: Vec<Piece<I>>,
    pub(super) n_carried: usize,
    /// The samples that are drawn.
    pub(super) ids: Vec<I>,
    supply: Supply<I>,
}

impl<I: Copy + Default + Ord> Filling<I> {
    pub(super) fn new() -> Self {
        Self { pieces: Vec::new(), n_carried: 0, ids: Vec::new(), supply: Supply::default() }
    }

    /// Lays the pieces into rows, each begun by the first that is carried, or else the longest, and filled by the longest
    /// that fits: first-fit decreasing, row by row.
    ///
    /// Rows of these are at most 11/9 of the fewest possible, plus 6/9: Dósa, Li, Han and Tuza, "Tight absolute bound for
    /// First Fit Decreasing bin-packing", Theoretical Computer Science 510, 2013.
    pub(super) fn fill(&mut self, config: &PackConfig, rows: &mut PackedRows<I>) {
        rows.clear();
        let (carried, drawn) = self.pieces.split_at(self.n_carried);
        self.supply.fill(drawn, config.piece_len());
        let mut carried = carried.iter().map(|piece| (*piece, piece.len())).peekable();
        while let Some(first) = carried.next().or_else(|| self.supply.longest()) {
            let mut room = Room { free: config.row_len, squares: config.row_squares };
            room.take(rows, first);
            while let Some(piece) = carried.next_if(|(_, length)| *length <= room.most()) {
                room.take(rows, piece);
            }
            while let Some(piece) = self.supply.at_most(room.most()) {
                room.take(rows, piece);
            }
            rows.close();
        }
    }

    /// Takes back the rows that are not full, the emptiest first, up to a number of pieces.
    ///
    /// A row with a piece that was carried stays, so that none waits for long.
    pub(super) fn take_back(&mut self, rows: &mut PackedRows<I>, most: usize) -> Vec<Piece<I>> {
        let mut carried_before: Vec<Piece<I>> = self.pieces[..self.n_carried].to_vec();
        carried_before.sort_unstable();
        let spans = std::mem::take(rows.spans());
        let free = |span: &(u32, u32)| u64::from(rows.row_len()) - load(rows.row_len(), rows.of(*span)).positions;
        let least = u64::from(rows.row_len() / FULL);
        let is_new = |span| rows.of(span).iter().all(|it| carried_before.binary_search(it).is_err());
        let mut open: Vec<_> = spans.iter().map(|span| (free(span), *span)).collect();
        open.retain(|(free, span)| *free > least && is_new(*span));
        open.sort_unstable_by_key(|(free, span)| (Reverse(*free), *span));
        let (mut back, mut gone) = (Vec::new(), Vec::new());
        for (_, span) in open {
            if back.len() + rows.of(span).len() > most {
                break;
            }
            back.extend_from_slice(rows.of(span));
            gone.push(span);
        }
        gone.sort_unstable();
        *rows.spans() = spans;
        rows.spans().retain(|span| gone.binary_search(span).is_err());
        back
    }

    /// Puts the rows into a random order.
    pub(super) fn shuffle(rows: &mut PackedRows<I>, rng: &mut Rng) {
        rng.shuffle(rows.spans());
    }
}

/// What is free in a row.
struct Room {
    free: u32,
    squares: Option<u64>,
}

impl Room {
    /// The longest piece that has room.
    fn most(&self) -> u32 {
        let root = |squares: u64| u32::try_from(squares.isqrt()).unwrap_or(u32::MAX);
        self.squares.map_or(self.free, |squares| self.free.min(root(squares)))
    }

    fn take<I: Copy>(&mut self, rows: &mut PackedRows<I>, (piece, length): (Piece<I>, u32)) {
        self.free -= length;
        self.squares = self.squares.map(|squares| squares - u64::from(length).pow(2));
        rows.push_piece(piece);
    }
}
