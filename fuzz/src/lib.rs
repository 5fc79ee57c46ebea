//! What the targets have in common: how much memory an input may take.
//!
//! Each target is a program of libFuzzer's, by the convention of `cargo fuzz`; `cargo xtask fuzz` builds and runs them on
//! the stable tool chain.

use plimsoll_probe::{HeapCounters, TrackingAllocator};

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

const COUNTERS: &HeapCounters = HeapCounters::of_program();

/// The most that an input may hold beyond what was held before, in bytes: as for the readers that take Burn.
const MOST_MEMORY: usize = 64 << 20;

/// Reads an input.
///
/// # Panics
///
/// Where the reader does, and where it has held more than 64 MiB.
pub fn limited(read: impl FnOnce()) {
    let before = COUNTERS.current();
    COUNTERS.reset_peak();
    read();
    let held = COUNTERS.peak().saturating_sub(before);
    assert!(held <= MOST_MEMORY, "{held} bytes are held, {MOST_MEMORY} are allowed");
}
