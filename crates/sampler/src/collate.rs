//! From samples to the bytes of a batch.

mod buffer;
mod mixed;
mod place;

pub use buffer::{HostBuffer, Pair};
pub use mixed::{IGNORED_LABEL, MixedBatch, MixedBuffer, MixedConfig, MixedImage, MixedSample, MixedShape};
pub use place::place_crop;
