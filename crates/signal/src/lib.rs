//! How does a signal become another size, rate or form, in little memory?
//!
//! Rows of an image go in and rows of another size come out; samples of a sound go in and those of another rate, or frames of its
//! spectrum, come out. Nothing holds the whole of what goes in: a few rows, a block, or a frame.
//!
//! It reads no file and no clock, and knows no job: whoever decodes gives rows and samples.

#![forbid(unsafe_code)]

mod mel;
mod resample;
mod resize;

pub use mel::{BANDS, LOWEST_RATE, LogMel};
pub use resample::{Resampled, n_resampled};
pub use resize::{Filter, RowResizer, Size};

/// The example of the README, which is tested with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
