//! Do the figures hold?
//!
//! Six modules, each of which compares what Plimsoll says of itself with what is, or with what others do:
//!
//! * [`plans`] compares plans with real steps;
//! * [`finder`] compares the finder's answers with those of other tools' search rules;
//! * [`end_to_end`] compares whole runs with planned and with random batches;
//! * [`sampler`] plans whole epochs: how long that takes, how much is padded, and how well samples are mixed;
//! * [`recovery`] simulates long runs under disturbances that come and go;
//! * [`scaling`] divides steps among as many as a thousand simulated devices.
//!
//! The binary `proof` (feature `devices`) runs steps on real devices, and takes Burn to build; `sampler`, `recovery` and
//! `scaling` take neither.
//!
//! ```text
//! cargo xtask bench predict       # plans against real steps
//! cargo xtask bench finder        # the finder against other rules
//! cargo xtask bench end-to-end    # whole runs against random batches
//! cargo xtask bench sampler       # epochs of up to ten million samples
//! cargo xtask bench recovery      # a million steps under disturbances
//! cargo xtask bench scaling       # steps of up to a thousand devices
//! ```
//!
//! # Invariants
//!
//! * No Burn and no device in the library. Files are written by the reports alone.
//! * Every input is computed, so that two machines measure the same work; the sampler's report reads lengths of real
//!   data besides.
//! * Rules of other tools are written from how these behave as published; none of their code is here.
//!
//! # Example
//!
//! A step as a log has it, whose peak is what [`observation`] gives its shape:
//!
//! ```
//! use plimsoll_proof::{observation, step_done};
//! use plimsoll_types::Knobs;
//!
//! let rung = Knobs { patch_size: 64, micro_batch_size: 8 };
//! let done = step_done(7, rung);
//! assert_eq!(done.peak, observation(rung.shape()).peak);
//! assert_eq!(done.n_samples(), 32);
//! ```

mod command_line;
pub mod end_to_end;
pub mod finder;
mod input;
mod median;
pub mod plans;
pub mod recovery;
pub mod sampler;
pub mod scaling;

pub use command_line::{refused, words};
pub use input::{observation, shapes, step_done};
