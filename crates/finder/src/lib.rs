//! Which is the largest, or fastest, that fits?
//!
//! A [`Finder`] looks for the largest batch of one shape that a device has memory for, in a few real steps, and a
//! [`Race`] for the fastest of those that fit, because a smaller one can be faster.
//! Both are asked what to do next and told how it went; neither knows a device.
//!
//! # Signals
//!
//! * A trial: one real step of some batch, with what was resident before it and its peak.
//! * The upper bound of the need of any batch, from the trials so far ([`Source::Probe`]); or what a dry run of any
//!   batch reserves ([`Source::Plan`]), which costs no real step.
//!
//! # Why these
//!
//! A search that only learns whether a batch fits has to fail to learn where the limit is.
//! A bound leads to the limit from below, but only slowly where much of the need is the same for every batch: where a
//! batch of `B` needs `c + b·B`, the largest batch of which that is certain is short of the best by a share that each
//! trial multiplies by `c / (budget - resident)`, and between small batches it stops altogether.
//! So two questions are asked of the trials of one path.
//! What is the most that a batch can need? Its bound, which no trial passes the capacity by.
//! What is the least? The line through the two largest batches that fitted, because the peak of a fixed program is
//! convex in the batch: no trial is made that cannot be within the budget, and none once no larger batch can.
//!
//! Batches up to [`FinderConfig::small_batch`] run other kernels, of which the others say nothing, and the other way
//! round; each is a *path*.
//! The answer is nearly always above, so that the search starts there.
//!
//! # Trip conditions
//!
//! With bounds from trials:
//!
//! | condition | answer |
//! |---|---|
//! | no trial yet | try the smallest batch above the path of small ones; where a failure ends the process, the smallest of all |
//! | one trial, and a larger batch is certain to be within the budget | try the largest such |
//! | no line can lead to a batch that is 2 % larger | the largest batch that ran, or whose bound is within the budget |
//! | a larger batch may be within the budget, and is certain to be within the capacity | try the largest such |
//! | the same, but no bound says so, and a failure is survived | try it |
//! | the smallest batch above the path of small ones is too much | the same among the small ones, from the smallest on |
//! | trials used up | as above, and it says so |
//!
//! With a dry run: the smallest batch, then the largest that is planned to fit until the trials confirm it.
//!
//! # Recovery
//!
//! What was measured to need too much is a trial like any other: between it and one that fitted, both bound the need.
//! A failure of which nothing was measured closes its batch and all above it on its path, and where a bound had said
//! that it fits, bounds count no more: the trials that are left halve what is between it and the largest that ran.
//!
//! # First start
//!
//! Of the first trial of a path nothing is known, so that nothing bounds it; it is the smallest of its path.
//!
//! # Invariants
//!
//! * No device, clock or randomness: the same trials give the same answer, and a restored finder goes on like the one
//!   that was saved.
//! * A trial with an upper bound is within the capacity; where a failure ends the process, within the budget, and
//!   there is no trial without one but the first.
//! * The answer ran within the budget, or its upper bound is.
//! * At most [`FinderConfig::max_trials`] trials, and the smallest of each path whatever that is.
//!
//! # Example
//!
//! See [`Finder`] and [`Race`].
//!
//! # Sources
//!
//! * Searches by failure, to compare with: `BatchSizeFinder` of `PyTorch` Lightning, `find_executable_batch_size` of
//!   accelerate, `OOMptimizer` of `NeMo`.
//! * The line through two points of a convex function as a bound: Kelley, *The cutting-plane method for solving convex
//!   programs* (1960).

mod climb;
mod config;
mod error;
mod finder;
mod found;
mod largest;
mod planned;
mod probed;
mod race;
mod trials;

pub use config::FinderConfig;
pub use error::FinderError;
pub use finder::{Bound, Finder, Outcome, Search, Source};
pub use found::{Found, Limit};
pub use race::{Race, Winner};
