//! What a memory report says beyond its sums.

use cubecl::{MemoryPoolKind, MemoryPoolReport, MemoryReport};
use plimsoll_types::Bytes;

/// Returns the size of one page of a pool that carves tensors from pages.
fn page_size(pool: &MemoryPoolReport) -> Option<u64> {
    match pool.kind {
        MemoryPoolKind::Sliced { page_size, .. } | MemoryPoolKind::Adaptive { page_size, .. } => Some(page_size),
        MemoryPoolKind::Exclusive { .. } | MemoryPoolKind::Direct | MemoryPoolKind::Persistent => None,
    }
}

/// Returns the largest page size among the pools that hold any page, the runtime's own buffers left out.
pub(super) fn largest_page(report: &MemoryReport) -> Bytes {
    let pools = report.streams.iter().flat_map(|stream| &stream.pools.dynamic);
    Bytes(pools.filter(|pool| pool.pages > 0).filter_map(page_size).max().unwrap_or(0))
}

/// Returns the largest tensor so far.
pub(super) fn largest_taken(report: &MemoryReport) -> Bytes {
    let pools = report.streams.iter().map(|stream| &stream.pools);
    let all = pools.flat_map(|it| it.dynamic.iter().chain([&it.persistent, &it.dedicated]));
    Bytes(all.map(|pool| pool.largest_alloc).max().unwrap_or(0))
}

/// Returns what the driver has really given: what is reserved, less what a dry run has only booked.
///
/// Where a pool's booked pages have no common size, all of the pool counts as booked.
#[cfg(feature = "cuda")]
pub(super) fn backed(report: &MemoryReport) -> Bytes {
    let own = report.streams.iter().map(|stream| &stream.pools);
    let auxiliary = report.streams.iter().flat_map(|stream| &stream.auxiliary).map(|it| &it.pools);
    own.chain(auxiliary)
        .flat_map(|pools| pools.dynamic.iter().chain([&pools.persistent, &pools.dedicated]))
        .map(|pool| match (pool.pages_unmapped, page_size(pool)) {
            (0, _) => Bytes(pool.usage.bytes_reserved),
            (unmapped, Some(page)) => Bytes(pool.usage.bytes_reserved.saturating_sub(page.saturating_mul(unmapped))),
            (_, None) => Bytes::ZERO,
        })
        .sum()
}
