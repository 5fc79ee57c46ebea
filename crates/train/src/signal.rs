//! A wish to end, told from outside the loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// Set by a signal handler, read between steps.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicI32>);

impl StopFlag {
    /// Asks the run to end after its current step; returns whether nobody had asked before.
    pub fn set(&self, signal: i32) -> bool {
        self.0.swap(signal, Ordering::Relaxed) <= 0
    }

    /// Hears that another rank was asked to: whoever asks this one too is the first to do so here.
    pub(crate) fn hear(&self, signal: i32) {
        // One that was set stays as it is.
        _ = self.0.compare_exchange(0, -signal, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns the signal that asked for the end.
    pub fn signal(&self) -> Option<i32> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(signal.abs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_another_rank_was_sent_is_not_the_first_of_two() {
        let stop = StopFlag::default();
        stop.hear(15);
        assert_eq!(stop.signal(), Some(15));
        assert!(stop.set(2) && !stop.set(2));
        stop.hear(15);
        assert_eq!(stop.signal(), Some(2));
    }
}
