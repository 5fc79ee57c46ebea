//! Models, datasets and batchers of the reference jobs.
//!
//! Each job is written with what `plimsoll-train` offers to everybody: it implements [`Job`](plimsoll_train::Job) and
//! [`Source`](plimsoll_train::Source), and nothing else.
//!
//! # Invariants
//!
//! * A job knows no budget, no policy and no run directory.
//! * Content depends on seed, epoch and sample id only.
//! * Data of any amount takes little memory: decoded pixels lie in a temporary file, sequences stay where they are, and
//!   a token takes 2 bytes.

#![forbid(unsafe_code)]

mod checksum;
mod files;
mod image_file;
pub mod multitask;
pub mod sequence;
mod split;
pub mod sr;
mod store;
pub mod text;

pub use files::FolderError;
