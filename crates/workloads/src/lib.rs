//! Models, datasets and batchers of the reference jobs.
//!
//! Each job is written with what `plimsoll-train` offers to everybody: it implements [`Job`](plimsoll_train::Job) and
//! [`Source`](plimsoll_train::Source), and for a model that is put to use
//! [`BlankForward`](plimsoll_train::BlankForward), and nothing else.
//! So is [`Hooked`], a job around any of them that somebody watches, and may make fail.
//!
//! # Invariants
//!
//! * A job knows no budget, no policy and no run directory.
//! * Content depends on seed, epoch and sample id only.
//! * What is trained on, validated on and tested on is disjoint, the same in every run, and nothing but what is trained on
//!   decides how samples are made: no tokenizer, vocabulary or baseline knows the rest.
//! * Whoever loads data may watch, and end it: each job has a `read_watched`.
//! * Data of any amount takes little memory, while it is loaded and after: pixels are decoded in what a head says that
//!   it takes, and lie in a file of bounded size; sequences stay where they are, and a token takes 2 bytes.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod chance;
mod checksum;
mod files;
mod hooked;
mod image_file;
mod listed;
pub mod multitask;
mod outside;
mod room;
mod rows;
pub mod sequence;
mod split;
pub mod sr;
mod store;
mod survey;
pub mod text;
mod watch;

pub use files::{FolderError, NoFile};
pub use hooked::{Hooked, HookedBuffer, HookedPart, HookedSource, Hooks};
pub use outside::{Outside, outside_told};
pub use room::{Room, StoreConfig};
pub use split::Shares;
pub use survey::{AboutFolder, Survey};
pub use watch::{Interrupted, Watch};
