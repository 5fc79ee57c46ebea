//! Whether kernels are tuned in a dry run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cubecl::dry_run::launch_mode;
use cubecl::logging::{LaunchObservation, LaunchObserver};

/// Counts the launches that run for real although a dry run is open: those are measurements of kernels, and nothing else.
///
/// # Sources
///
/// `RealRun` in `dry_run.rs` of cubecl-runtime 0.11.3, and `notify_launch` in its `logging/observer.rs`.
pub(super) struct Tuning {
    launches: Arc<RealLaunches>,
    _watching: LaunchObservation,
}

#[derive(Default)]
struct RealLaunches(AtomicUsize);

impl LaunchObserver for RealLaunches {
    fn launched(&self, _kernel: &'static str) {
        if !launch_mode().is_skipped() {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Tuning {
    /// Counts from now on; the dry run is opened after this, and nobody else launches meanwhile.
    pub(super) fn watch() -> Self {
        let launches = Arc::<RealLaunches>::default();
        let watching = LaunchObservation::new(launches.clone());
        Self { launches, _watching: watching }
    }

    pub(super) fn n_launches(&self) -> usize {
        self.launches.0.load(Ordering::Relaxed)
    }
}
