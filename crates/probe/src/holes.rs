//! The holes that the system's allocator keeps between blocks.

use plimsoll_types::Bytes;

/// The largest block that glibc ever keeps on its heap (`DEFAULT_MMAP_THRESHOLD_MAX` on 64 bits).
const LARGEST_KEPT: Bytes = Bytes::mib(32);

/// The smallest for which it takes a mapping by itself.
const SMALLEST_MAPPED: Bytes = Bytes::kib(128);

/// Parts of a limit that a hole may be at most.
const PARTS: u64 = 64;

/// Gives each large block a mapping of its own, which goes back to the system with it, so that no hole that it leaves is
/// more than a 64th of a limit.
///
/// By itself glibc learns to keep blocks of up to 32 MiB: under a limit of 96 MiB a heap of at most 77 MiB then took 90.
/// A mapping costs a fault for each of its pages; under a limit of 2 GiB and more nothing below 32 MiB has one.
/// Threads share one heap then: each with its own would keep holes of its own, which no other thread may use.
/// Other allocators than glibc's are left as they are.
pub(crate) fn keep_small(limit: Bytes) {
    share_heap();
    map_from(Bytes(limit.0 / PARTS).clamp(SMALLEST_MAPPED, LARGEST_KEPT));
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "a setting of the C library")]
fn map_from(size: Bytes) {
    let size = libc::c_int::try_from(size.0).unwrap_or(libc::c_int::MAX);
    // SAFETY: `mallopt` may be called at any time; it takes the lock of the allocator. A value that it refuses changes
    // nothing.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, size) };
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "a setting of the C library")]
fn share_heap() {
    // SAFETY: as in `map_from`.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn map_from(_size: Bytes) {}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn share_heap() {}
