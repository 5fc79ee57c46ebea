//! What cannot be sampled.

use plimsoll_types::StepShape;

/// A request that cannot be served; each message finishes "failed to …".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SamplerError {
    /// There is nothing to draw from.
    #[error("start an epoch: the data set has no samples")]
    NoSamples,
    /// An image is smaller than the crop.
    #[error("crop {edge} × {edge} px from image {image}, which has {width} × {height} px at the input resolution")]
    ImageTooSmall {
        /// Index of the image.
        image: u64,
        /// Width of the image in pixels at the input resolution.
        width: u32,
        /// Height of the image in pixels at the input resolution.
        height: u32,
        /// Edge of the crop in pixels at the input resolution.
        edge: u32,
    },
    /// A micro-batch is larger than the buffer was built for.
    #[error("begin a micro-batch of {wanted} px, the host buffer holds at most {most} px")]
    BeyondCapacity {
        /// The samples and the edge asked for.
        wanted: StepShape,
        /// The most samples and the largest edge.
        most: StepShape,
    },
}
