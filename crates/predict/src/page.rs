//! The page that an allocator opens for an allocation.

use plimsoll_types::{Bytes, SMALLEST_PAGE};

/// Step of page sizes, and what a page has beyond the allocation that it was opened for.
const STEP: u64 = 1 << 20;

/// Returns the size of the page that `CubeCL`'s arena opens for an allocation: 1 MiB more, rounded up to whole MiB, and at
/// least 2 MiB.
///
/// The arena's pages are as large as its largest allocation so far demands, and never become smaller; a device may cap
/// them, and then this is too much.
///
/// # Sources
///
/// `memory_management/dynamic/arena.rs` of cubecl-server 0.11.3.
pub fn page_for(largest: Bytes) -> Bytes {
    let wanted = largest.0.saturating_add(STEP).div_ceil(STEP).saturating_mul(STEP);
    Bytes(wanted).max(SMALLEST_PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_its_allocation_and_one_mib_more() {
        for (largest, page) in [(0, 2), (1, 2), (1 << 20, 2), ((1 << 20) + 1, 3), (100 << 20, 101)] {
            assert_eq!(page_for(Bytes(largest)), Bytes::mib(page), "{largest}");
        }
        assert!(page_for(Bytes::MAX) > Bytes::gib(1 << 30));
    }
}
