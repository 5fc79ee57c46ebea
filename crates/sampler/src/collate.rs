//! From samples to the bytes of a batch.

mod mixed;

pub use mixed::{IGNORED_LABEL, MixedBatch, MixedBuffer, MixedConfig, MixedImage, MixedSample, MixedShape};
