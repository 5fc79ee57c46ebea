//! What a program gives back is there when it takes it again. A process of its own, since the heap is that of the process.

#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::hint::black_box;

use plimsoll_probe::{HeapProbe, Host, TrackingAllocator};

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

/// Bytes of a page, the smallest of any system.
const PAGE: usize = 4096;

/// Returns how many pages the kernel has given this process so far.
fn faults() -> usize {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // Behind the name, which may hold anything, and seven numbers.
    stat.rsplit(')').next().unwrap().split_whitespace().nth(7).unwrap().parse().unwrap()
}

#[test]
fn blocks_that_are_taken_again_cost_no_faults() {
    let _probe = HeapProbe::try_new().unwrap();
    let host = Host::new();
    let of_group = host.cgroup_limit().unwrap().map(|it| it.limit);
    let all = of_group.map_or(host.memory().unwrap().total, |it| it.min(host.memory().unwrap().total));
    let block = usize::try_from(all.0 / 1024).unwrap().clamp(16 * PAGE, 4 << 20);
    let pass = || {
        // As the tensors of a pass: taken one after the other, and given back from the last to the first.
        let mut blocks: Vec<Vec<u8>> = (0..8).map(|_| vec![1; block]).collect();
        while let Some(it) = blocks.pop() {
            black_box(it);
        }
    };
    (0..3).for_each(|_| pass());
    let before = faults();
    (0..10).for_each(|_| pass());
    let (faults, pages) = (faults() - before, 10 * 8 * block / PAGE);
    assert!(faults < pages / 20, "{faults} faults for {pages} pages");
}
