//! How fast are the hot paths?
//!
//! One benchmark per path that runs in every training step, or for every sample: `prediction`, `policy`, `guard`, `draw`,
//! `plan`, `collate`, `fleet`, `monitor` and `allocator`, under `benches/`; `crops`, of super-resolution, takes
//! `--features crops`, and Burn to build.
//! This library holds what they share: the measuring times.
//!
//! ```text
//! cargo bench -p plimsoll-bench                     # everything, in about a minute
//! cargo bench -p plimsoll-bench -- --quick          # coarser, in about twenty seconds
//! cargo bench -p plimsoll-bench --bench prediction  # one path
//! ```
//!
//! # Invariants
//!
//! * No device: only what Plimsoll adds to a step is measured here, on inputs that `plimsoll-proof` computes, so that two
//!   machines measure the same work.
//! * Nothing is asserted about time; what a run pays for Plimsoll is measured inside a run.
//!
//! # Example
//!
#![cfg_attr(feature = "criterion", doc = "```no_run")]
#![cfg_attr(not(feature = "criterion"), doc = "```text")]
//! use std::hint::black_box;
//!
//! use plimsoll_bench::run;
//! use plimsoll_types::{Features, StepShape};
//!
//! run(|criterion| {
//!     let shape = StepShape::new(4, 32);
//!     criterion.bench_function("features", |b| b.iter(|| Features::default().of(black_box(shape))));
//! });
//! ```
#![cfg(feature = "criterion")]

use std::time::Duration;

use criterion::Criterion;

/// Caches, branch predictors and the clock of the processor settle in well below this time.
const WARM_UP: Duration = Duration::from_millis(500);

/// The slowest path takes 3 to 4 ms, so that this still holds the 100 runs that Criterion wants of it.
const MEASUREMENT: Duration = Duration::from_secs(1);

/// A tenth of Criterion's default, which would take as long as the measurement; intervals differ by a few per cent of
/// their width.
const N_RESAMPLES: usize = 10_000;

/// Runs the benchmarks of one file, with what the command line says in place of the defaults here.
pub fn run(benches: impl FnOnce(&mut Criterion)) {
    let defaults = Criterion::default().warm_up_time(WARM_UP).measurement_time(MEASUREMENT).nresamples(N_RESAMPLES);
    let mut criterion = defaults.configure_from_args();
    benches(&mut criterion);
    criterion.final_summary();
}
