//! What cannot be laid out.

/// Samples that cannot be laid into a buffer; each message finishes "failed to …".
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum CollateError {
    /// A sample is longer than its batch is padded to, or the host buffer is full.
    #[error("collate sample {id}: `{axis}` would be {size}, the limit is {limit}")]
    DoesNotFit {
        /// The sample.
        id: u64,
        /// The axis of the sample, or the product of axes of the whole batch.
        axis: &'static str,
        /// Its length.
        size: u64,
        /// The most that the cell, the lattice or the buffer holds.
        limit: u64,
    },
    /// An image is not as large as it says.
    #[error(
        "collate sample {id}: image {index} has {bytes} bytes, {channels} channels of {height} × {width} px (height × \
         width) take {}",
        u128::from(*channels) * u128::from(*height) * u128::from(*width)
    )]
    ImageBytes {
        /// The sample.
        id: u64,
        /// Number of the image in its sample, from 0.
        index: usize,
        /// Bytes of the image.
        bytes: usize,
        /// Channels of every image.
        channels: u32,
        /// Height of the image in pixels.
        height: u32,
        /// Width of the image in pixels.
        width: u32,
    },
    /// A sample has more numbers of metadata, or fewer, than the others.
    #[error("collate sample {id}: it has {numbers} numbers of metadata, the buffer was built for {expected}")]
    MetadataCount {
        /// The sample.
        id: u64,
        /// Its numbers.
        numbers: usize,
        /// Numbers of each sample.
        expected: u32,
    },
}
