//! What does counting add to taking a block and giving it back?

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkGroup, BenchmarkId, Criterion, measurement::WallTime};
use plimsoll_bench::run;
use plimsoll_probe::{HeapCounters, TrackingAllocator};

static COUNTERS: HeapCounters = HeapCounters::new();
static TRACKING: TrackingAllocator = TrackingAllocator::wrap(System, &COUNTERS);

const SMALL: Layout = Layout::new::<[u64; 8]>();
const PAGE: Layout = Layout::new::<[u64; 512]>();

fn main() {
    run(|criterion: &mut Criterion| {
        for (name, n_threads) in [("allocator/1_thread", 1), ("allocator/2_threads", 2)] {
            let mut group = criterion.benchmark_group(name);
            for layout in [SMALL, PAGE] {
                pair(&mut group, "system", &System, layout, n_threads);
                pair(&mut group, "tracking", &TRACKING, layout, n_threads);
            }
            group.finish();
        }
    });
}

/// One block taken and given back, on each thread at the same time.
fn pair(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    heap: &(impl GlobalAlloc + Sync),
    layout: Layout,
    n_threads: usize,
) {
    group.bench_function(BenchmarkId::new(name, layout.size()), |b| {
        b.iter_custom(|n_pairs| {
            let start = Barrier::new(n_threads);
            thread::scope(|scope| {
                let spawn = |_| scope.spawn(|| timed(heap, layout, n_pairs, &start));
                let threads: Vec<_> = (0..n_threads).map(spawn).collect();
                threads.into_iter().map(|it| it.join().expect("a thread that only allocates")).max()
            })
            .unwrap_or_default()
        });
    });
}

/// Returns how long this thread took, from the moment at which all have started.
#[expect(unsafe_code, reason = "an allocator can only be called through its unsafe trait")]
fn timed(heap: &impl GlobalAlloc, layout: Layout, n_pairs: u64, start: &Barrier) -> Duration {
    start.wait();
    let begun = Instant::now();
    for _ in 0..n_pairs {
        // SAFETY: both layouts have a size above zero.
        let block = black_box(unsafe { heap.alloc(layout) });
        assert!(!block.is_null());
        // SAFETY: the block came from this allocator with this layout, and nothing has used it.
        unsafe { heap.dealloc(block, layout) };
    }
    begun.elapsed()
}
