//! The stream that a rehearsal runs on.

use burn::tensor::StreamId;
use cubecl::config::{CubeClRuntimeConfig, RuntimeConfig};
use cubecl::{MemoryPoolKind, MemoryReport, StreamMemoryReport};
use plimsoll_types::Bytes;

use crate::Pools;

/// What earlier work has left on a stream for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    /// Size of the pages that it would open next; zero on a fresh stream.
    pub(super) page: Bytes,
    /// The largest allocation that it has served.
    pub(super) largest: Bytes,
    /// Buffers that reads have gone through.
    pub(super) staged: u64,
}

impl Left {
    pub(super) fn of_all(report: &MemoryReport) -> Self {
        let page = report.streams.iter().map(page).max().unwrap_or_default();
        let Pools { largest, staged, .. } = Pools::from(report);
        Self { page, largest, staged }
    }

    fn of(stream: &StreamMemoryReport) -> Self {
        Self::of_all(&MemoryReport { streams: vec![stream.clone()] })
    }
}

/// Returns a stream that nobody has used, or the idle one with the smallest pages.
pub(super) fn choose(report: &MemoryReport) -> (StreamId, Left) {
    let n = u64::from(CubeClRuntimeConfig::get().streaming.max_streams.max(1));
    // The stream of this thread is a run's: no rehearsal may fix the size of its pages.
    let here = StreamId::current().value % n;
    let taken =
        |id: StreamId| id.value % n == here || report.streams.iter().any(|it| it.stream.value % n == id.value % n);
    let fresh = (0..n).map(|_| StreamId::allocate()).find(|id| !taken(*id));
    if let Some(fresh) = fresh {
        return (fresh, Left::default());
    }
    let is_idle = |it: &&StreamMemoryReport| it.stream.value % n != here && it.usage().bytes_in_use == 0;
    let idle = report.streams.iter().filter(is_idle).min_by_key(|it| page(it));
    idle.map_or_else(|| (StreamId::allocate(), Left::of_all(report)), |it| (it.stream, Left::of(it)))
}

/// Returns the size of the pages of tensors above 64 KiB.
fn page(stream: &StreamMemoryReport) -> Bytes {
    let pages = stream.pools.dynamic.iter().filter_map(|pool| match pool.kind {
        MemoryPoolKind::Adaptive { page_size, .. } => Some(Bytes(page_size)),
        _ => None,
    });
    pages.max().unwrap_or_default()
}
