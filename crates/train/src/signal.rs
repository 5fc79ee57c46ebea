//! A wish to end, told from outside the loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// Set by a signal handler, read between steps.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicI32>);

impl StopFlag {
    /// Asks the run to end after its current step; returns whether nobody had asked before.
    pub fn set(&self, signal: i32) -> bool {
        self.0.swap(signal, Ordering::Relaxed) == 0
    }

    /// Returns the signal that asked for the end.
    pub fn signal(&self) -> Option<i32> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(signal),
        }
    }
}
