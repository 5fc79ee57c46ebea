//! A part of a sample.

use serde::{Deserialize, Serialize};

/// A part of a sample, or all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Piece<I = u32> {
    /// The sample: its place in an index, or its id in a stream.
    pub id: I,
    /// The sample's first position that is in the piece.
    pub start: u32,
    /// The one after its last.
    pub end: u32,
}

impl<I> Piece<I> {
    /// Positions of the piece.
    #[expect(clippy::len_without_is_empty, reason = "no piece is empty")]
    pub const fn len(&self) -> u32 {
        self.end - self.start
    }
}
