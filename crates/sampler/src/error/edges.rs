//! What no edges can be chosen for.

/// Lengths that no edges can be chosen for, or a number of them that cannot be; each message finishes "failed to …".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EdgesError {
    /// A number that must be at least one is zero.
    #[error("choose edges: `{0}` is 0, but must be at least 1")]
    BelowOne(&'static str),
    /// A sample has other axes than there are multiples.
    #[error(
        "choose cells: a sample has lengths along {n_axes} axes, and {n_multiples} multiples are given, one for each axis"
    )]
    OtherAxes {
        /// Multiples.
        n_multiples: usize,
        /// Axes of the sample.
        n_axes: usize,
    },
    /// There is no length.
    #[error("choose edges: there is no length, but there must be at least one")]
    NoLength,
    /// A sample without an extent.
    #[error("choose edges: length {index} is 0, but must be at least 1")]
    ZeroLength {
        /// Its place among the lengths, counted from 0.
        index: usize,
    },
    /// A length whose next multiple does not fit into 32 bits.
    #[error("choose edges: length {length} rounded up to a multiple of {multiple} is above {}", u32::MAX)]
    TooLong {
        /// The length.
        length: u32,
        /// What edges are multiples of.
        multiple: u32,
    },
}
