//! Batches of samples that differ in their number of images, tokens and labels.

mod batch;
mod block;
mod buffer;
mod room;
mod sample;
mod shape;

pub use batch::MixedBatch;
pub use buffer::{IGNORED_LABEL, MixedBuffer, MixedConfig};
pub use sample::{MixedImage, MixedSample};
pub use shape::MixedShape;
