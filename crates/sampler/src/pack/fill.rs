//! Filling rows.

use std::cmp::Reverse;

use super::config::PackConfig;
use super::piece::Piece;
use super::rows::PackedRows;
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
    /// What each row has empty, and how many rows, the first ones, have a piece that was carried.
    free: Vec<u32>,
    n_waited: usize,
}

impl<I: Copy + Default> Filling<I> {
    pub(super) fn new() -> Self {
        Self {
            pieces: Vec::new(),
            n_carried: 0,
            ids: Vec::new(),
            supply: Supply::default(),
            free: Vec::new(),
            n_waited: 0,
        }
    }

    /// Lays the pieces into rows, each begun by the first that is carried, or else the longest, and filled by the longest
    /// that fits: first-fit decreasing, row by row.
    ///
    /// Rows of these are at most 11/9 of the fewest possible, plus 6/9: Dósa, Li, Han and Tuza, "Tight absolute bound for
    /// First Fit Decreasing bin-packing", Theoretical Computer Science 510, 2013.
    pub(super) fn fill(&mut self, config: &PackConfig, rows: &mut PackedRows<I>) {
        rows.clear();
        self.free.clear();
        let Self { pieces, supply, free, .. } = self;
        let (carried, drawn) = pieces.split_at(self.n_carried);
        supply.fill(drawn);
        let mut carried = carried.iter().map(|piece| (*piece, piece.len())).peekable();
        while let Some(first) = carried.next() {
            let mut room = Room::new(config);
            room.take(rows, first);
            while let Some(piece) = carried.next_if(|(_, length)| *length <= room.most()) {
                room.take(rows, piece);
            }
            free.push(room.close(rows, supply));
        }
        self.n_waited = rows.len();
        while let Some(first) = supply.longest() {
            let mut room = Room::new(config);
            room.take(rows, first);
            free.push(room.close(rows, supply));
        }
    }

    /// Takes back the rows that are not full, the emptiest first, up to a number of pieces.
    ///
    /// A row with a piece that was carried stays, so that none waits for long.
    pub(super) fn take_back(&self, rows: &mut PackedRows<I>, most: usize) -> Vec<Piece<I>> {
        let least = rows.row_len() / FULL;
        let new_rows = self.free.iter().copied().enumerate().skip(self.n_waited);
        let mut open: Vec<_> = new_rows.filter(|(_, free)| *free > least).collect();
        open.sort_unstable_by_key(|(row, free)| (Reverse(*free), *row));
        let (mut back, mut stays) = (Vec::new(), vec![true; rows.len()]);
        for (row, _) in open {
            let pieces = rows.get(row).unwrap_or_default();
            if back.len() + pieces.len() > most {
                break;
            }
            back.extend_from_slice(pieces);
            stays[row] = false;
        }
        let mut stays = stays.into_iter();
        rows.spans().retain(|_| stays.next().unwrap_or(true));
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
    const fn new(config: &PackConfig) -> Self {
        Self { free: config.row_len, squares: config.row_squares }
    }

    /// The longest piece that has room.
    fn most(&self) -> u32 {
        let root = |squares: u64| u32::try_from(squares.isqrt()).unwrap_or(u32::MAX);
        self.squares.map_or(self.free, |squares| self.free.min(root(squares)))
    }

    #[inline]
    fn take<I: Copy>(&mut self, rows: &mut PackedRows<I>, (piece, length): (Piece<I>, u32)) {
        self.free -= length;
        self.squares = self.squares.map(|squares| squares - u64::from(length).pow(2));
        rows.push_piece(piece);
    }

    /// Fills the row to its end, and says what it has empty.
    #[inline]
    fn close<I: Copy + Default>(mut self, rows: &mut PackedRows<I>, supply: &mut Supply<I>) -> u32 {
        while let Some(piece) = supply.at_most(self.most()) {
            self.take(rows, piece);
        }
        rows.close();
        self.free
    }
}
