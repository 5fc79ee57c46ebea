use std::sync::{Barrier, Mutex};
use std::thread;

use proptest::prelude::*;

use super::*;

/// The largest block of the tests with threads.
const LARGEST: usize = 2000;

fn fresh() -> TrackingAllocator {
    TrackingAllocator::wrap(System, Box::leak(Box::default()))
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 16).unwrap()
}

/// A block that goes back by itself.
struct Block<'a> {
    heap: &'a TrackingAllocator,
    at: *mut u8,
    size: usize,
}

impl<'a> Block<'a> {
    fn new(heap: &'a TrackingAllocator, size: usize) -> Self {
        // SAFETY: no test asks for zero bytes.
        let at = unsafe { heap.alloc(layout(size)) };
        assert!(!at.is_null());
        Self { heap, at, size }
    }

    /// Resizes and returns whether the block moved.
    fn resize(&mut self, size: usize) -> bool {
        // SAFETY: the block is alive and has this layout, and no test asks for zero bytes.
        let at = unsafe { self.heap.realloc(self.at, layout(self.size), size) };
        assert!(!at.is_null());
        let moved = at != self.at;
        (self.at, self.size) = (at, size);
        moved
    }
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        // SAFETY: the block is alive and has this layout.
        unsafe { self.heap.dealloc(self.at, layout(self.size)) };
    }
}

/// Writes down what is counted at the moment of each call.
struct Witness {
    counters: &'static HeapCounters,
    seen: Mutex<Vec<usize>>,
}

// SAFETY: every call is passed on to `System`.
unsafe impl GlobalAlloc for Witness {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.seen.lock().unwrap().push(self.counters.current());
        // SAFETY: the caller's promises are exactly those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.seen.lock().unwrap().push(self.counters.current());
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        self.seen.lock().unwrap().push(self.counters.current());
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, new_size) }
    }
}

#[test]
fn a_block_counts_from_before_it_is_asked_for_until_after_it_is_returned() {
    let counters = Box::leak(Box::default());
    let heap = TrackingAllocator::wrap(Witness { counters, seen: Mutex::default() }, counters);
    // SAFETY: sizes are not zero, and each block goes back with the layout that it has then.
    unsafe {
        let block = heap.alloc(layout(100));
        let block = heap.realloc(block, layout(100), 30);
        heap.dealloc(block, layout(30));
    }
    assert_eq!(*heap.inner.seen.lock().unwrap(), [100, 130, 30]);
    assert_eq!(counters.current(), 0);
}

#[test]
fn a_refused_request_changes_nothing() {
    let heap = fresh();
    // SAFETY: the size is not zero, and no system has that much.
    let block = unsafe { heap.alloc(layout(1 << 60)) };
    assert!(block.is_null());
    assert_eq!((heap.counters.current(), heap.counters.peak()), (0, 0));
}

#[test]
fn a_block_that_shrinks_is_never_refused() {
    let heap = fresh();
    let beside = Block::new(&heap, 10 << 20);
    let mut block = Block::new(&heap, 60 << 20);
    heap.counters.set_line(100 << 20);
    heap.counters.set_limit(100 << 20);
    block.resize(50 << 20);
    assert_eq!(heap.counters.current(), 60 << 20);
    // SAFETY: the block is alive and has this layout.
    let grown = unsafe { heap.realloc(block.at, layout(block.size), 51 << 20) };
    assert!(grown.is_null(), "what grows may be held twice");
    assert_eq!(heap.counters.current(), 60 << 20);
    drop((beside, block));
    assert_eq!(heap.counters.current(), 0);
}

#[test]
fn zeroed_blocks_count_as_others_do() {
    let heap = fresh();
    // SAFETY: the size is not zero.
    let at = unsafe { heap.alloc_zeroed(layout(4096)) };
    let block = Block { heap: &heap, at, size: 4096 };
    assert_eq!(heap.counters.current(), 4096);
    drop(block);
    assert_eq!((heap.counters.current(), heap.counters.peak()), (0, 4096));
}

#[test]
fn an_overaligned_block_that_is_resized_is_held_twice() {
    let heap = fresh();
    let wide = Layout::from_size_align(1 << 16, 256).unwrap();
    // SAFETY: sizes are not zero, and each block goes back with the layout that it has then.
    unsafe {
        let block = heap.alloc(wide);
        let block = heap.realloc(block, wide, 1 << 17);
        heap.dealloc(block, Layout::from_size_align(1 << 17, 256).unwrap());
    }
    assert_eq!((heap.counters.current(), heap.counters.peak()), (0, (1 << 16) + (1 << 17)));
}

#[test]
fn blocks_that_threads_hold_at_once_add_up() {
    const THREADS: usize = 8;
    const SIZE: usize = 12_345;
    let (heap, everyone) = (fresh(), Barrier::new(THREADS));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let block = Block::new(&heap, SIZE);
                everyone.wait();
                drop(block);
            });
        }
    });
    assert_eq!((heap.counters.current(), heap.counters.peak()), (0, THREADS * SIZE));
}

/// Takes, resizes and returns blocks at random, at most eight at a time.
///
/// The witness counts a block only while it is surely held: it can lag behind the truth, but never run ahead.
fn churn(heap: &TrackingAllocator, witness: &HeapCounters, mut seed: usize) {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    for _ in 0..50_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (choice, size) = ((seed >> 60) % 4, 1 + (seed >> 33) % LARGEST);
        match (choice, blocks.pop()) {
            (0, Some(block)) => witness.end(block.size),
            (1, Some(mut block)) => {
                witness.end(block.size);
                block.resize(size);
                witness.raise(witness.begin(size));
                blocks.push(block);
            }
            (_, last) => {
                blocks.extend(last);
                if blocks.len() < 8 {
                    blocks.push(Block::new(heap, size));
                    witness.raise(witness.begin(size));
                }
            }
        }
    }
    for block in blocks {
        witness.end(block.size);
    }
}

#[test]
fn under_many_threads_the_peak_is_never_below_what_was_held_at_once() {
    const THREADS: usize = 4;
    for round in 0..10 {
        let (heap, witness) = (fresh(), HeapCounters::new());
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (heap, witness) = (&heap, &witness);
                scope.spawn(move || churn(heap, witness, 97 * round + thread));
            }
        });
        let (peak, least) = (heap.counters.peak(), witness.peak());
        assert_eq!((heap.counters.current(), witness.current()), (0, 0));
        assert!(peak >= least, "round {round}: {peak} measured, {least} held at once");
        // Each thread has at most one request under way, which is two blocks at most.
        assert!(peak <= least + 2 * THREADS * LARGEST, "round {round}: {peak} measured, {least} held at once");
    }
}

proptest! {
    #[test]
    fn one_thread_is_counted_exactly(ops in prop::collection::vec((0usize..3, 1usize..100_000), 1..200)) {
        let heap = fresh();
        let mut blocks: Vec<Block<'_>> = Vec::new();
        let (mut current, mut peak) = (0, 0);
        for (op, size) in ops {
            match (op, blocks.last_mut()) {
                (1, Some(block)) => {
                    let old = block.size;
                    let both = current + size;
                    current = both - old;
                    peak = peak.max(if block.resize(size) { both } else { current });
                }
                (2, Some(_)) => current -= blocks.pop().map_or(0, |block| block.size),
                _ => {
                    blocks.push(Block::new(&heap, size));
                    current += size;
                    peak = peak.max(current);
                }
            }
            prop_assert_eq!((heap.counters.current(), heap.counters.peak()), (current, peak));
        }
        drop(blocks);
        prop_assert_eq!(heap.counters.current(), 0);
    }
}
