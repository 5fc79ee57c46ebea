//! What is wanted of packed rows.

use super::piece::Piece;
use super::rows::load;
use crate::{PackError, PlanError, SampleIndex};

/// The most samples of a window that nobody asked for: going on in the middle packs one again.
const MOST_WINDOW: usize = 1 << 13;

/// Of so many windows an epoch consists at least, where each has rows enough: what two samples of a row have in common is
/// forgotten when they come into different windows of the next epoch.
const WINDOWS: usize = 32;

/// Rows of a window at least; the last of them is carried unless it has too many pieces.
const LEAST_ROWS: u64 = 8;

/// Samples of a window at least: fewer leave less choice of what fills a row to its end.
/// With 256, recorded speech fills rows of 8 192 frames to 99.60 %, with 512 to 99.69 %, with 1 500 to 99.83 %, of which
/// 0.2, 0.4 and 1.4 % of mates are kept.
const LEAST_WINDOW: usize = 512;

/// What is wanted of packed rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackConfig {
    /// Positions of a row, tokens or frames say; at least 1.
    pub row_len: u32,
    /// The most that the squares of the lengths of a row's pieces may sum to; no limit unless given.
    ///
    /// Block-diagonal attention costs that much, which is `row_len²` for a row of one piece and far less for one of many.
    pub row_squares: Option<u64>,
    /// What becomes of a sample that is longer than a row may be.
    pub split: Split,
    /// Where the order comes from, together with the epoch.
    pub seed: u64,
    /// How many samples are packed at a time; chosen by [`PackConfig::window`] unless given.
    pub window: Option<usize>,
}

/// What becomes of a sample that is longer than a row may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// There is no plan.
    Refuse,
    /// It is cut into pieces as long as a row, and a last one.
    Cut {
        /// Positions at the start of each further piece that repeat the end of the one before; below the length of a piece.
        overlap: u32,
    },
}

impl PackConfig {
    /// Rows of this length, samples that fit into them, and the defaults otherwise.
    pub const fn new(row_len: u32) -> Self {
        Self { row_len, row_squares: None, split: Split::Refuse, seed: 0, window: None }
    }

    /// How many samples are packed at a time, made equal over the epoch: what was asked for, or else a 32nd of the
    /// samples, but no fewer than 512 or 8 rows take, and no more than 8 Ki.
    pub fn window(&self, index: &SampleIndex<1>) -> usize {
        let n_samples = index.n_samples();
        let total = index.total();
        let of_rows = u128::from(LEAST_ROWS) * u128::from(self.row_len) * n_samples as u128 / u128::from(total.max(1));
        let least = usize::try_from(of_rows).unwrap_or(usize::MAX).max(LEAST_WINDOW);
        let window = self.window.unwrap_or((n_samples / WINDOWS).max(least).min(MOST_WINDOW)).max(1);
        n_samples.div_ceil(n_samples.div_ceil(window).max(1)).max(1)
    }

    /// The longest piece that a row may have.
    pub(crate) fn piece_len(&self) -> u32 {
        let root = self.row_squares.map_or(u64::MAX, u64::isqrt);
        self.row_len.min(u32::try_from(root).unwrap_or(u32::MAX))
    }

    /// A number that no row's squares exceed: each piece has at most the longest one's square for each of its positions.
    pub(super) fn most_squares(&self, longest: u32) -> u64 {
        let longest = u64::from(longest.min(self.piece_len()));
        self.row_squares.unwrap_or(u64::MAX).min(longest * u64::from(self.row_len))
    }

    /// How many pieces a sample of this length has.
    pub(super) fn n_pieces(&self, length: u32) -> u32 {
        let piece = self.piece_len();
        match self.split {
            Split::Cut { overlap } if length > piece => 1 + (length - piece).div_ceil(piece - overlap),
            _ => 1,
        }
    }

    /// Where a piece of a sample of this length begins and ends.
    pub(super) fn piece(&self, length: u32, number: u32) -> (u32, u32) {
        let Split::Cut { overlap } = self.split else { return (0, length) };
        let start = number * (self.piece_len() - overlap);
        (start, length.min(start.saturating_add(self.piece_len())))
    }

    /// Which piece begins there.
    pub(super) fn number(&self, start: u32) -> u32 {
        let Split::Cut { overlap } = self.split else { return 0 };
        start / (self.piece_len() - overlap)
    }

    /// Checks what a type cannot.
    pub(super) fn check(&self) -> Result<(), PackError> {
        for (key, value) in [
            ("row_len", self.row_len.into()),
            ("row_squares", self.row_squares.unwrap_or(1)),
            ("window", self.window.map_or(1, |it| it as u64)),
        ] {
            if value == 0 {
                return Err(PlanError::BelowOne { key }.into());
            }
        }
        match (self.split, self.piece_len()) {
            (Split::Cut { overlap }, limit) if overlap >= limit => Err(PackError::Overlap { overlap, limit }),
            _ => Ok(()),
        }
    }

    /// Whether pieces fit into one row.
    pub(super) fn fits<I>(&self, pieces: &[Piece<I>]) -> bool {
        let load = load(self.row_len, pieces);
        load.positions <= load.block && self.row_squares.is_none_or(|most| load.squares <= most)
    }

    /// Refuses a sample that is longer than a row may be and is not to be cut.
    pub(super) fn check_length(&self, id: u64, length: u32) -> Result<(), PackError> {
        let (row_len, limit) = (self.row_len, self.piece_len());
        let fits = length <= limit || self.split != Split::Refuse;
        if fits { Ok(()) } else { Err(PackError::BeyondRow { id, length, row_len, limit }) }
    }
}
