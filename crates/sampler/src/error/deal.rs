//! What cannot be dealt.

/// A step that nobody can take; the message finishes "failed to …".
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum DealError {
    /// Samples of a step are too long for every device.
    #[error("deal a step: no device holds a sample that is padded to {length}")]
    NobodyTakes {
        /// The length.
        length: u32,
    },
}
