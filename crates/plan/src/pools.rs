//! What an allocator's pools hold after a rehearsal.

use plimsoll_predict::Booked;
use plimsoll_types::Bytes;
use serde::{Deserialize, Serialize};

/// Pages of one size, which the largest allocation so far has determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pages {
    /// Size of a page.
    pub size: Bytes,
    /// How many there are.
    pub count: u64,
}

/// What the pools of one stream, or of a device, hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pools {
    /// Everything that tensors may take: pages, exact-size buffers of parameters, and dedicated ones.
    pub reserved: Bytes,
    /// What the runtime keeps beside that for itself: staging buffers, arguments of kernels.
    /// A rehearsal fills none of it.
    pub auxiliary: Bytes,
    /// What live tensors hold.
    pub in_use: Bytes,
    /// The largest single allocation so far, or zero where an earlier one hides it.
    pub largest: Bytes,
    /// The pages of tensors above 64 KiB, by size.
    pub pages: Vec<Pages>,
    /// Buffers that reads of values went through.
    pub staged: u64,
}

impl Pools {
    /// Returns all that is reserved.
    pub fn total(&self) -> Bytes {
        self.reserved.saturating_add(self.auxiliary)
    }

    /// Returns what a correction of plans looks at.
    pub fn booked(&self) -> Booked {
        Booked { reserved: self.reserved, auxiliary: self.auxiliary, page: self.page() }
    }

    /// Returns what is held beyond what was held before.
    #[must_use]
    pub fn beyond(mut self, before: &Self) -> Self {
        self.reserved = self.reserved.saturating_sub(before.reserved);
        self.auxiliary = self.auxiliary.saturating_sub(before.auxiliary);
        self.in_use = self.in_use.saturating_sub(before.in_use);
        self
    }

    /// Returns the size of the largest of [`Self::pages`], or zero where there is none.
    pub fn page(&self) -> Bytes {
        self.pages.iter().map(|it| it.size).max().unwrap_or_default()
    }
}

#[cfg(any(feature = "vulkan", feature = "cuda"))]
mod report {
    use cubecl::{MemoryPoolKind, MemoryPoolReport, MemoryPoolsReport, MemoryReport};
    use plimsoll_types::Bytes;

    use super::{Pages, Pools};

    /// Begins the name of the memory that `cubecl-wgpu` 0.11.3 reads values through (`compute/mem_manager.rs`).
    const STAGING: &str = "Staging";

    impl From<&MemoryReport> for Pools {
        fn from(report: &MemoryReport) -> Self {
            let own = || report.streams.iter().flat_map(|it| all(&it.pools));
            let auxiliary = || report.streams.iter().flat_map(|it| &it.auxiliary);
            let dynamic = report.streams.iter().flat_map(|it| &it.pools.dynamic);
            let staging = auxiliary().filter(|it| it.name.starts_with(STAGING));
            Self {
                reserved: own().map(|it| Bytes(it.usage.bytes_reserved)).sum(),
                auxiliary: auxiliary().flat_map(|it| all(&it.pools)).map(|it| Bytes(it.usage.bytes_reserved)).sum(),
                in_use: own().map(|it| Bytes(it.usage.bytes_in_use)).sum(),
                largest: own().map(|it| Bytes(it.largest_alloc)).max().unwrap_or_default(),
                pages: dynamic.filter_map(pages).collect(),
                staged: staging.flat_map(|it| all(&it.pools)).map(|it| it.pages_peak).sum(),
            }
        }
    }

    fn all(pools: &MemoryPoolsReport) -> impl Iterator<Item = &MemoryPoolReport> {
        pools.dynamic.iter().chain([&pools.persistent, &pools.dedicated])
    }

    fn pages(pool: &MemoryPoolReport) -> Option<Pages> {
        match pool.kind {
            MemoryPoolKind::Adaptive { page_size, .. } if pool.pages > 0 => {
                Some(Pages { size: Bytes(page_size), count: pool.pages })
            }
            _ => None,
        }
    }
}
