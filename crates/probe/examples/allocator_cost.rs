//! What counting adds to an allocation: nanoseconds for one block taken and returned, with one thread and with two.
#![expect(unsafe_code, reason = "an allocator can only be called through its unsafe trait")]
#![expect(clippy::print_stdout, reason = "this is a program")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::thread;
use std::time::Instant;

use plimsoll_probe::{HeapCounters, TrackingAllocator};

const PAIRS: u32 = 5_000_000;

static COUNTERS: HeapCounters = HeapCounters::new();
static TRACKING: TrackingAllocator = TrackingAllocator::wrap(System, &COUNTERS);

fn main() {
    for size in [64, 4096] {
        for n_threads in [1, 2] {
            let [plain, tracked] = [cost(&System, size, n_threads), cost(&TRACKING, size, n_threads)];
            println!("{size:>5} B, {n_threads} thread(s): {plain:6.1} ns plain, {tracked:6.1} ns counted");
        }
    }
}

/// Returns the least nanoseconds per pair of five rounds.
fn cost(heap: &'static (impl GlobalAlloc + Sync), size: usize, n_threads: usize) -> f64 {
    let rounds = (0..5).map(|_| {
        let start = Instant::now();
        let threads: Vec<_> = (0..n_threads).map(|_| thread::spawn(move || pairs(heap, size))).collect();
        for thread in threads {
            thread.join().unwrap_or_default();
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(PAIRS)
    });
    rounds.fold(f64::INFINITY, f64::min)
}

fn pairs(heap: &impl GlobalAlloc, size: usize) {
    let layout = Layout::from_size_align(size, 16).unwrap_or_else(|_| Layout::new::<u128>());
    for _ in 0..PAIRS {
        // SAFETY: the size is not zero, and the block goes back with its own layout.
        unsafe { heap.dealloc(black_box(heap.alloc(black_box(layout))), layout) };
    }
}
