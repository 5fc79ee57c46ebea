//! Is it safe to try, and what now that it failed?
//!
//! A step is a list of parts, each a range of the step's samples, and [`Guard`] a machine that is told what
//! [`Happened`] and answers what [`Now`].
//! Before a part runs, its predicted upper bound is held against the budget and the part is halved until it fits.
//! When a part runs out of memory all the same, it is tried once more where a cleanup may help, and then in halves: the
//! *same* samples, in the same order, so that the accumulated gradient is the one that was asked for.
//! A single sample that was measured to need more than there is does not run at all: not every device refuses.
//! When a step does not go on by itself, the answer is the first of what can be done, in the order of what it costs:
//! go by more memory, recompute activations, leave the sample out; take the step again from a copy, or go back to a
//! checkpoint, where the optimizer ran out of memory; and give up, with the reason, when nothing is left.
//! What an error of a device means is told by [`classify`].
//!
//! # Invariants
//!
//! * Guard knows no tensor and no device, and does nothing: whoever asks carries out what it answers.
//! * What ran is a partition of what was asked for, in order; nothing is dropped and nothing runs twice.
//! * Each part is tried in a bounded number of sizes, in each at most twice, their sum is made at most twice, and an
//!   optimizer's step that fails at the same step again is given up: there is no endless retry.
//! * It does not give up while anything is left that would help.
//!
//! # Example
//!
//! ```
//! use plimsoll_guard::{Ahead, Failure, Guard, Happened, Now};
//! use plimsoll_types::Bytes;
//!
//! // A device on which at most 3 samples fit, and no prediction yet.
//! let mut guard = Guard::new(false);
//! let mut now = guard.begin([0..8], Bytes::mib(90), true);
//! while now != Now::CheckSum {
//!     now = guard.on(match now {
//!         Now::Look(_) => Happened::Seen(Ahead::default()),
//!         Now::Run(part) if part.len() <= 3 => Happened::Ran,
//!         Now::Run(_) => Happened::Failed(Failure::OutOfMemory { needed: None, is_worth_a_retry: false }),
//!         _ => unreachable!("every sample fits alone"),
//!     });
//! }
//! assert_eq!(guard.ran(), [0..2, 2..4, 4..6, 6..8]);
//! ```
//!
//! # Sources
//!
//! Retrying the same batch in smaller parts follows Composer's `device_train_microbatch_size="auto"`; the weights that
//! make it exact are those of a mean over all samples of the step.

#![forbid(unsafe_code)]

mod classify;
mod error;
mod guard;
mod parts;

pub use classify::{Cause, DeviceError, classify};
pub use error::GuardError;
pub use guard::{Guard, Happened, Means, Now, Obstacle, weight};
pub use parts::{Ahead, Failure};

/// The example of the README, which is tested with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
