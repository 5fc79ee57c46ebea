//! What threads pack for products of matrices, and what they take beside each other.

use std::alloc::Layout;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use plimsoll_types::Bytes;

use crate::threads::{Part, n_workers, others, part};

/// What packs a matrix, or keeps room for it, asks for blocks at this alignment, two lines of a cache; tensors ask for less.
///
/// # Sources
///
/// `CACHELINE_ALIGN` of gemm-common 0.19.0 on `x86_64` and `aarch64`.
const ALIGN: usize = 128;

/// What is smaller is a lock or a counter that is alone on its line.
const LEAST: usize = 4 << 10;

/// The most of a buffer that each thread has where work is divided, and one thread where it is not.
///
/// # Sources
///
/// `COLUMNS_BYTES` of burn-flex 0.22.1, `ops/conv_transpose.rs`: the gradient of a convolution's input is divided among threads
/// from 256 Ki numbers on. The convolutions of `ops/conv.rs` are divided whatever their size, so that every reading has the
/// buffers of all.
const MOST_SCRATCH: usize = 8 << 20;

thread_local! {
    /// The largest block that was returned since one was taken.
    static RETURNED: Cell<usize> = const { Cell::new(0) };
}

/// The most that was packed for one product.
#[derive(Debug, Default)]
pub(crate) struct Packed {
    /// By a thread of no pool.
    alone: AtomicUsize,
    /// By one of the workers, who divide some products among them.
    by_worker: AtomicUsize,
    /// The largest block that a worker took for something else.
    scratch: AtomicUsize,
}

impl Packed {
    pub(crate) const fn new() -> Self {
        Self { alone: AtomicUsize::new(0), by_worker: AtomicUsize::new(0), scratch: AtomicUsize::new(0) }
    }

    /// Returns the most that may be packed at once for what one thread works out, by itself, or by all workers, each the most
    /// that one of them has; and with it the scratch of all workers but one, which work that was not divided has not shown.
    pub(crate) fn most(&self) -> Bytes {
        let by_all = self.by_worker.load(SeqCst).saturating_mul(n_workers());
        let scratch = self.scratch.load(SeqCst).min(MOST_SCRATCH).saturating_mul(others());
        Bytes(self.alone.load(SeqCst).max(by_all).saturating_add(scratch) as u64)
    }

    /// Notes that a worker takes a block that packs nothing.
    pub(crate) fn note_scratch(&self, size: usize) {
        if LEAST < size && self.scratch.load(SeqCst) < size {
            self.scratch.fetch_max(size, SeqCst);
        }
    }

    fn note(&self, size: usize) {
        let most = if part() == Part::Worker { &self.by_worker } else { &self.alone };
        if most.load(SeqCst) < size {
            most.fetch_max(size, SeqCst);
        }
    }
}

/// Whether a block is one that packs.
pub(crate) fn is_packed(layout: Layout) -> bool {
    layout.align() == ALIGN && LEAST <= layout.size()
}

/// Notes that this thread takes a block that packs, and with it what it has packed before: what it keeps for as long as it lives
/// is returned when it takes no more.
pub(crate) fn taken<'a>(counts: impl IntoIterator<Item = &'a Packed>) {
    // A thread that ends packs no more.
    let before = RETURNED.try_with(|it| it.replace(0)).unwrap_or(0);
    if 0 < before {
        counts.into_iter().for_each(|it| it.note(before));
    }
}

/// Notes that this thread has returned a block that packed.
pub(crate) fn returned(size: usize) {
    // As above.
    _ = RETURNED.try_with(|it| it.set(size.max(it.get())));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::ALONE;

    fn pack(packed: &Packed, size: usize) {
        taken([packed]);
        returned(size);
    }

    #[test]
    fn the_most_is_that_of_a_product_and_not_what_a_thread_keeps() {
        let packed = Packed::new();
        // What is kept from the first product on is returned last.
        taken([&packed]);
        pack(&packed, 5000);
        pack(&packed, 7000);
        assert_eq!(packed.most(), Bytes(5000), "the last one counts when the next begins");
        pack(&packed, 100);
        assert_eq!(packed.most(), Bytes(7000));
        returned(1 << 30);
        assert_eq!(packed.most(), Bytes(7000), "a thread that packs no more returns what it kept");
        let work = || {
            crate::count_as_worker();
            pack(&packed, 6000);
            pack(&packed, 100);
            packed.most()
        };
        let work = || std::thread::scope(|scope| scope.spawn(work).join().unwrap());
        let _alone = ALONE.lock();
        // The second finds two workers at least, since one counts after its end too; other tests may have had some.
        let [_, Bytes(most)] = [work(), work()];
        assert!(2 * 6000 <= most && most.is_multiple_of(6000), "{most}");
    }

    #[test]
    fn scratch_counts_for_all_workers_but_one_up_to_the_largest_buffer() {
        let (_alone, packed) = (ALONE.lock(), Packed::new());
        for _ in 0..2 {
            std::thread::scope(|scope| scope.spawn(crate::count_as_worker).join().unwrap());
        }
        let others = others();
        assert!(0 < others);
        for (taken, counted) in [(LEAST, 0), (9000, 9000), (1 << 30, MOST_SCRATCH)] {
            packed.note_scratch(taken);
            assert_eq!(packed.most(), Bytes((counted * others) as u64));
        }
    }

    #[test]
    fn only_large_blocks_on_their_own_lines_pack() {
        let of = |size, align| is_packed(Layout::from_size_align(size, align).unwrap());
        assert_eq!((of(1 << 20, 128), of(1 << 20, 64), of(128, 128)), (true, false, false));
    }
}
