//! Tokens that every vocabulary has, and how many one may have.

/// The token that begins and ends a section; the first of every vocabulary.
pub const BOUNDARY: u16 = 0;

/// The boundary and one token for each byte, so that any text can be written.
pub const LEAST_VOCABULARY: usize = 257;

/// Tokens are kept in 16 bits, of which one value marks what is padding.
pub const MOST_VOCABULARY: usize = u16::MAX as usize;
