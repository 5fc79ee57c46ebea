//! Numbers of samples in 32 bits.

/// A number of samples, or the place of one; an index holds fewer than 2^32.
#[expect(clippy::cast_possible_truncation, reason = "the index refuses more samples than 32 bits can count")]
pub(super) const fn narrow(n: usize) -> u32 {
    n as u32
}
