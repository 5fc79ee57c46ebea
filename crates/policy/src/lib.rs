//! What should the next step be?
//!
//! A [`Policy`] answers each [`Signal`] of a run with a decision: keep the knobs, move them, or switch itself off.
//! There are four.
//! [`Certified`] is the default and what the headings below describe; [`Bucketed`] does the same for samples of many
//! lengths, with a batch size for each cell of a lattice in place of the ladder; [`Stepwise`] follows thresholds on the
//! measured peak; [`Fixed`] never moves.
//!
//! # Signals
//!
//! * A committed step: its peak, the budget that was in force during it, and whether it had to be divided.
//! * A step that ran out of memory, however often it had to be split: it is answered once, when its parts are done, or at
//!   once where it was no micro-batch that failed: then no step may follow that ends it.
//! * A change of the budget; [`CapacityWatch`] says which changes of the capacity are news.
//! * Gradient checkpointing is on from here: what failed before it may fit now.
//! * The upper bound of the need of any shape, asked through a function that the caller supplies.
//!
//! # Why these
//!
//! A momentary reading misses the peak between two readings, so only the high-water marks of whole steps count.
//! A peak says that this rung fits; only an upper bound says that a higher one will, so peaks alone never raise a
//! rung.
//! Patch and batch lie on one [`ladder()`], so they cannot oscillate against each other.
//!
//! # Trip conditions
//!
//! | condition | answer |
//! |---|---|
//! | out of memory | down to the highest rung of at most 85 % of the failed rung's `n·e²`, and whose bound fits; the failed rung closes |
//! | the rung's upper bound above a budget that fell | down to the highest rung whose bound fits it |
//! | the rung's upper bound above a budget that did not fall | the same three steps later, when a burst is over; the guard divides the steps until then |
//! | peak of the window above 99.5 % of the budget | down to the next rung whose bound is lower; the rung left closes, unless its bound says as much |
//! | a higher, open rung's upper bound within 98.5 % of the budget, at least 2 % more `n·e²` | up to it in one jump |
//! | a growth was undone within 200 steps | the next one waits until memory and sizes have stayed as they are, 4 times the cooldown and 4 times as long for each other one, up to 140 steps |
//! | what had lasted for 20 steps fell though the budget was the same | the next growth waits for 193 steps |
//! | 20 growths undone though the budget was the same | no way up |
//!
//! The way down is never blocked: not by the warm-up, not by the cooldown, and not by the brake, because a rung that
//! runs out of memory at every step costs more than any oscillation.
//! Three steps are all that it waits for, and only where a bound already divides what might run out.
//!
//! # Recovery
//!
//! What goes down comes back up, because each memory of a failure keeps its reason and lapses with it:
//!
//! * A closed rung, with all above it, opens after 180 steps, or as soon as the budget is well above (1.5 %) the one at
//!   which it failed; one that is found lower right after the failure is that one, so that a co-tenant that comes in the
//!   middle of a step closes nothing for longer than it stays.
//!   The time doubles while the rung fails again within 20 steps in use, so a bound that is wrong costs ever less; what
//!   ran for longer failed for a reason from elsewhere, and its time is the first again.
//! * A growth that was undone is forgotten after a thousand steps without another.
//!   One that a smaller budget undid says nothing against the bounds: a co-tenant that comes and goes fifty times ends
//!   nothing, and while it comes and goes within 140 steps, the run waits below.
//! * A fall of what had lasted, at the same budget, is put down to a burst: something in the process took memory for a
//!   moment.
//!   What it lowered waits until all bounds have forgotten it and closed rungs are open, and comes back in one change; for
//!   as long as bursts are remembered, a thousand steps, each fall waits so.
//! * The brake counts the others, and lets go by one in a thousand steps.
//!   How much equal steps differ is in the bounds, for as long as it lasts: a memory of it here would take a burst of a
//!   loader's memory for noise, and hold the run down long after.
//! * A peak whose reason the bounds know needs no memory here: the need lapses in them.
//!
//! When memory runs out while a rung is closed, the bounds have failed twice, and the policy stays where it retreated
//! to until the ceiling opens, instead of trying the rungs between one after the other.
//!
//! So a run is back 200 steps after what disturbed it, and changes at most ten times in a thousand steps, the first thousand left out.
//! Simulations of a million steps hold this: `cargo xtask bench recovery`.
//!
//! # First start
//!
//! A run starts on the lowest rung unless the configuration names another, and the first way up comes after the
//! warm-up, in one jump: a bound exists after the first observation, or before it from a plan.
//!
//! # Invariants
//!
//! * No clock, device, file or randomness: time is the step number, and the same events give the same decisions.
//! * The knobs are always within the bounds; a batch size is at least 1, and never larger for a cell than for one that it covers.
//! * An increase needs an upper bound that fits, a finished warm-up, a finished cooldown, and an open rung.
//! * A policy serialises whole; a restored one decides like the one that was saved.
//!
//! # Example
//!
//! ```
//! use plimsoll_policy::{Bounds, CertifiedConfig, Policy, PolicyConfig, Signal, StepRefused};
//! use plimsoll_types::{Decision, Knobs};
//!
//! let bounds = Bounds { patch_min: 16, patch_max: 32, patch_multiple: 8, batch_min: 2, batch_max: 64 };
//! let start = Knobs { patch_size: 32, micro_batch_size: 20 };
//! let config = CertifiedConfig { bounds, start: Some(start), ..CertifiedConfig::default() };
//! let mut policy = Policy::try_new(PolicyConfig::Certified(config))?;
//!
//! let refused = StepRefused { step: 7, knobs: start, shape: start.shape(), in_parts: false };
//! let decision = policy.on_signal(&Signal::OutOfMemory(refused), &|_shape| None);
//!
//! assert!(matches!(decision, Some(Decision::Move(_))));
//! assert_eq!(policy.knobs(), Knobs { patch_size: 32, micro_batch_size: 17 });
//! # Ok::<(), plimsoll_policy::PolicyError>(())
//! ```
//!
//! # Sources
//!
//! * Jump to a certified point, ceilings, and why not additive increase: Netflix's concurrency limiters and TCP's
//!   congestion control probe an *unknown, shared* limit by failing; here the limit is measured and failing is dear.
//! * The shape of the code: the path-MTU discovery of quinn-proto (`connection/mtud.rs`).
//! * Patch before batch: Isensee et al., nnU-Net, Nature Methods 18 (2021).

mod bounds;
mod bucketed;
mod capacity;
mod ceiling;
mod certified;
mod controller;
mod counts;
mod error;
mod fixed;
mod lapsing;
mod pace;
mod policy;
mod preset;
mod signal;
mod stepwise;

pub use bounds::{Bounds, LARGEST, batches, ladder};
pub use bucketed::{Bucketed, BucketedConfig};
pub use capacity::{CapacityWatch, Followed};
pub use certified::{Certified, CertifiedConfig};
pub use controller::Predict;
pub use error::PolicyError;
pub use fixed::{Fixed, FixedConfig};
pub use policy::{Policy, PolicyConfig};
pub use preset::Preset;
pub use signal::{Signal, StepMeasured, StepRefused};
pub use stepwise::{Stepwise, StepwiseConfig};

/// The example of the README, which is tested with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
