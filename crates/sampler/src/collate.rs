//! From crops to the bytes of a micro-batch.

mod buffer;
mod place;

pub use buffer::{HostBuffer, Pair};
pub use place::place_crop;
