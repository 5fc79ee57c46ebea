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
//! A bound leads to the limit from below, but slowly where much of the need is the same for every batch: where a batch of
//! `B` needs `c + b·B`, each trial of the largest batch that is certain to fit takes a share of `c / (budget - resident)`
//! of what was left to the best, and between small batches it leads nowhere.
//! So two questions are asked of the trials of one path.
//! What does a batch need at most? That is its bound.
//! What does it need at least? That is the line through two batches that fitted, since the peak of a fixed program is
//! convex in the batch: what this line leads above the budget need not be tried.
//! Trials thus go as far as the capacity is certain to do, and the answer as far as the budget.
//!
//! Batches up to [`FinderConfig::small_batch`] run other kernels, of which the others say nothing, and the other way
//! round; each is a *path*.
//! The answer is nearly always above, so that the search starts there.
//!
//! # Trip conditions
//!
//! With bounds from trials, on each path from its smallest batch on:
//!
//! | condition | answer |
//! |---|---|
//! | nothing is known of any path | the one above the small batches; where a failure ends the process, that of the small ones |
//! | the smallest batch of a path is too much | the other path |
//! | no line can lead to a batch that is 2 % larger, or the trials are used up | the largest batch that ran within the budget, or is certain to |
//! | a batch is certain to be within the budget, and is twice the last one or half the way to where the line leads | try the largest such |
//! | else, where a failure is survived | the same with the capacity, and then with half more than the capacity |
//! | none of these | the largest batch that is certain |
//!
//! With a dry run: the smallest batch, then the largest that is planned to fit until the trials confirm it.
//!
//! # Recovery
//!
//! What was measured to need too much is a trial like any other: between it and one that fitted, both bound the need, and
//! from then on the budget is all that counts.
//! A failure of which nothing was measured closes its batch and all above it on its path, and where a bound had said
//! that it fits, bounds count no more: the trials that are left halve what is between it and the largest that ran.
//!
//! # First start
//!
//! Nothing bounds the first trial of all; it is the smallest of its path.
//!
//! # Invariants
//!
//! * No device, clock or randomness: the same trials give the same answer, and a restored finder goes on like the one
//!   that was saved.
//! * The answer ran within the budget, or its bound is.
//! * Where a failure ends the process, every trial but the first has a bound within the budget.
//! * Where it is survived, a trial is the first of its path, or its bound is at most one and a half times the capacity;
//!   at most the capacity once one has passed it, but for those that halve what it left.
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

/// The example of the README, which is tested with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
