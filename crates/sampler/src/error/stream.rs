//! What a stream cannot do.

use plimsoll_types::Bytes;

use crate::{IndexError, PackError, PlanError, PositionError};

/// A sample that a stream cannot hold, or a stream that cannot be; each message finishes "failed to …".
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum StreamError {
    /// A stream has no end by which shares could be kept.
    #[error("plan a stream: `shares` are for epochs, a stream has the tasks that come")]
    StreamShares,
    /// A streamed sample is too large for the look-ahead buffer.
    #[error("buffer sample {id}: it has {bytes}, half of the stream's buffer is {limit}")]
    BufferedSample {
        /// The sample.
        id: u64,
        /// Its size in host memory.
        bytes: Bytes,
        /// The most that one sample may have.
        limit: Bytes,
    },
    /// A streamed sample would be cut into more pieces than one may have.
    #[error(
        "pack a stream: sample {id} would be cut into {n_pieces} pieces, at most {most} are held; set a longer `row_len`"
    )]
    ManyPieces {
        /// The sample.
        id: u64,
        /// Its pieces.
        n_pieces: u32,
        /// The most of one sample.
        most: u32,
    },
    /// A stream was given a sample of which it still holds a piece.
    #[error("pack a stream: sample {id} came again while a piece of it is held")]
    HeldTwice {
        /// The sample.
        id: u64,
    },
    /// A resumed stream was given a sample before those that its position holds.
    #[error(
        "resume a stream: sample {id} came before {n_missing} that the position holds; push those first, or leave them \
         out"
    )]
    NotPending {
        /// The sample.
        id: u64,
        /// How many of the position's samples have not come yet.
        n_missing: u64,
    },
    /// Streams are mixed in no shares.
    #[error("mix streams: `shares` are not set, and nobody knows how long the sources are")]
    NoShares,
    /// The share of a source is negative or no number.
    #[error("mix streams: the share of source {number} is {share}, it must be a number from 0")]
    SourceShare {
        /// Number of the source, from 0.
        number: usize,
        /// Its share.
        share: f64,
    },
    /// A source without samples would have to come again, or to end every epoch.
    #[error("mix streams: source {number} has no samples, and would have to begin again without end")]
    EmptySource {
        /// Number of the source, from 0.
        number: usize,
    },
    /// A sample cannot be what it is.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// There is no plan for it.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// There are no rows for it.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// It cannot go on there.
    #[error(transparent)]
    Position(#[from] PositionError),
}
