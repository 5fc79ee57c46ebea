//! How fast are the hot paths?
//!
//! One benchmark per path that runs in every training step, or for every sample: `prediction`, `policy`, `guard`,
//! `draw`, `plan`, `collate`, `fleet`, `monitor` and `allocator`, under `benches/`; `crops`, of super-resolution, takes `--features proof`.
//! This library holds what they share: the measuring times, and inputs that look like those of a run.
//!
//! Six modules measure more than a path:
//!
//! * [`finder`] compares the finder's answers with those of other tools' search rules;
//! * [`sampler`] plans whole epochs: how long that takes, how much is padded, and how well samples are mixed;
//! * [`recovery`] simulates long runs under disturbances that come and go;
//! * [`scaling`] divides steps among as many as a thousand simulated devices;
//! * [`proof`] compares plans with real steps;
//! * [`end_to_end`] compares whole runs with planned and with random batches.
//!
//! The binary `proof` runs steps on real devices, and takes Burn to build, as the benchmark `crops` does.
//!
//! ```text
//! cargo bench -p plimsoll-bench                    # everything, in about a minute
//! cargo bench -p plimsoll-bench -- --quick         # coarser, in about twenty seconds
//! cargo bench -p plimsoll-bench --bench prediction  # one path
//! cargo xtask bench predict                        # plans against real steps
//! cargo xtask bench finder                         # the finder against other rules
//! cargo xtask bench sampler                        # epochs of up to ten million samples
//! cargo xtask bench recovery                       # a million steps under disturbances
//! cargo xtask bench scaling                        # steps of up to a thousand devices
//! cargo xtask bench end-to-end                     # whole runs against random batches
//! ```
//!
//! # Invariants
//!
//! * No Burn and no device in the library: only what Plimsoll adds to a step is measured here. Files are written by the
//!   reports alone.
//! * Every input is computed, so that two machines measure the same work; the sampler's report reads lengths of real
//!   data besides.
//! * Nothing is asserted about time; what a run pays for Plimsoll is measured inside a run.
//!
//! # Example
//!
#![cfg_attr(feature = "criterion", doc = "```no_run")]
#![cfg_attr(not(feature = "criterion"), doc = "```text")]
//! use std::hint::black_box;
//!
//! use plimsoll_bench::{observation, run};
//! use plimsoll_types::{Features, StepShape};
//!
//! run(|criterion| {
//!     let shape = StepShape::new(4, 32);
//!     criterion.bench_function("features", |b| b.iter(|| Features::default().of(black_box(shape))));
//!     criterion.bench_function("observation", |b| b.iter(|| observation(black_box(shape))));
//! });
//! ```

mod command_line;
#[cfg(feature = "criterion")]
mod criterion;
pub mod end_to_end;
pub mod finder;
mod input;
pub mod proof;
pub mod recovery;
pub mod sampler;
pub mod scaling;

#[cfg(feature = "criterion")]
pub use self::criterion::run;
pub use command_line::arguments;
pub use input::{observation, shapes, step_done};
