//! How long a benchmark is measured.

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
