//! What cannot be packed.

use crate::{IndexError, PlanError};

/// Rows that cannot be packed, or taken; each message finishes "failed to …".
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum PackError {
    /// A sample is longer than a row may be.
    #[error(
        "pack rows: sample {id} has length {length}, a row of `row_len` {row_len} has room for {limit}; set a longer \
         `row_len`, or cut samples"
    )]
    BeyondRow {
        /// The first such sample.
        id: u64,
        /// Its length.
        length: u32,
        /// Positions of a row.
        row_len: u32,
        /// The longest piece that a row may have, by its length and by its squares.
        limit: u32,
    },
    /// Pieces of a sample would repeat all of one another.
    #[error("pack rows: `overlap` is {overlap}, it must be below {limit}, the length of a piece")]
    Overlap {
        /// The value given.
        overlap: u32,
        /// The length of a piece.
        limit: u32,
    },
    /// Samples are cut into more pieces than a plan can tell apart.
    #[error("pack rows: there are {n_pieces} pieces, a plan holds at most {most}; set a longer `row_len`")]
    TooManyPieces {
        /// Number of pieces.
        n_pieces: u64,
        /// The most that a plan holds.
        most: u64,
    },
    /// Rows of one task each.
    #[error(
        "pack rows: `homogeneous` is true, rows hold samples of any task; leave it out, or pack each task by itself"
    )]
    Homogeneous,
    /// A row does not fit even alone.
    #[error(
        "take packed rows: a row of {positions} positions whose squares sum to {squares} does not fit even alone; set a \
         shorter `row_len`, or lower `row_squares`"
    )]
    RowLoad {
        /// Positions of the row.
        positions: u64,
        /// The sum of the squares of its pieces' lengths.
        squares: u64,
    },
    /// The samples of a group do not fit into a row together.
    #[error(
        "group samples: group {group} has length {length} in all, a row has room for {limit}; set a longer `row_len`"
    )]
    GroupBeyondRow {
        /// The first such group.
        group: u32,
        /// The sum of its samples' lengths.
        length: u64,
        /// The greatest length that a row may have in one piece.
        limit: u32,
    },
    /// The samples cannot be what they are.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// A setting that batches have too cannot be.
    #[error(transparent)]
    Plan(#[from] PlanError),
}
