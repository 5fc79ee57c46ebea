//! A part of a sample.

use serde::{Deserialize, Serialize};

/// A part of a sample, or all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Piece {
    /// The sample.
    pub id: u32,
    /// The sample's first position that is in the piece.
    pub start: u32,
    /// The one after its last.
    pub end: u32,
}

impl Piece {
    /// Positions of the piece.
    #[expect(clippy::len_without_is_empty, reason = "no piece is empty")]
    pub const fn len(&self) -> u32 {
        self.end - self.start
    }
}
