//! Summing a run up takes no more memory for more steps.

use std::alloc::System;

use plimsoll_monitor::History;
use plimsoll_probe::{HeapCounters, TrackingAllocator};
use plimsoll_proof::step_done;
use plimsoll_types::{Bytes, Event, Knobs, StepDone};

static COUNTERS: HeapCounters = HeapCounters::new();

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::wrap(System, &COUNTERS);

const RUNG: Knobs = Knobs { patch_size: 64, micro_batch_size: 8 };

/// Returns the highest mark in bytes while so many steps are summed up.
fn peak_of(n_steps: u64) -> usize {
    let before = COUNTERS.current();
    COUNTERS.reset_peak();
    let mut history = History::default();
    for step in 0..n_steps {
        // Peaks of many sizes, so that whatever keeps them grows.
        let done = step_done(step, RUNG);
        let peak = done.peak.saturating_add(Bytes(step * 104_729 % 1_000_003));
        history.hear(&Event::StepDone(StepDone { peak, ..done }));
    }
    let peak = COUNTERS.peak() - before;
    drop(history);
    peak
}

/// The only test of this file: another one would allocate beside it.
#[test]
fn twice_the_steps_take_no_more_memory() {
    let (half, whole) = (peak_of(200_000), peak_of(400_000));
    assert!(whole <= half + half / 50 && whole < 16 << 20, "{half} and {whole} bytes");
}
