//! Is it safe to try, and what if it fails?
//!
//! A step is a list of parts, each a range of the step's samples.
//! Before a part runs, its predicted upper bound is held against the budget and the part is halved until it fits.
//! When a part runs out of memory all the same, it is tried once more where a cleanup may help, and then in halves: the
//! *same* samples, in the same order, so that the accumulated gradient is the one that was asked for.
//! A single sample that was measured to need more than there is does not run at all: not every device refuses.
//! What an error of a device means is told by [`classify`].
//!
//! # Invariants
//!
//! * Guard knows no tensor and no device: a part is run by a closure, and memory arrives as values.
//! * What ran is a partition of what was asked for, in order; nothing is dropped and nothing runs twice.
//! * A part of one sample that does not fit ends the step with [`GuardError::NeverFits`] or
//!   [`GuardError::TensorNeverFits`]: there is no endless retry.
//! * A failure that is not about memory passes through untouched and is never taken for memory.
//!
//! # Example
//!
//! ```
//! use plimsoll_guard::{Failure, Guard};
//! use plimsoll_types::Bytes;
//!
//! // A device on which at most 3 samples fit, and no prediction yet.
//! let predict = |_part: &std::ops::Range<usize>| None;
//! let guard = Guard { budget: Bytes::mib(90), predict, too_much: |_sample| None };
//! let ran = guard.run(std::iter::once(0..8), |part| {
//!     if part.len() <= 3 { Ok(()) } else { Err(Failure::<String>::OutOfMemory { needed: None, is_worth_a_retry: false }) }
//! })?;
//! assert_eq!(ran, [0..2, 2..4, 4..6, 6..8]);
//! # Ok::<(), plimsoll_guard::GuardError<String>>(())
//! ```
//!
//! # Sources
//!
//! Retrying the same batch in smaller parts follows Composer's `device_train_microbatch_size="auto"`; the weights that
//! make it exact are those of a mean over all samples of the step.

#![forbid(unsafe_code)]

mod classify;
mod guard;

pub use classify::{Cause, DeviceError, classify};
pub use guard::{Failure, Guard, GuardError, weight};
