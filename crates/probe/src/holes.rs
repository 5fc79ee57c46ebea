//! The holes that the system's allocator keeps between blocks.

use std::thread;

use plimsoll_types::Bytes;

/// The largest block that glibc ever keeps on its heap (`DEFAULT_MMAP_THRESHOLD_MAX` on 64 bits).
const LARGEST_KEPT: Bytes = Bytes::mib(32);

/// The smallest for which it takes a mapping by itself.
const SMALLEST_MAPPED: Bytes = Bytes::kib(128);

/// Parts of a limit that a hole may be at most.
const PARTS: u64 = 64;

/// What glibc learns to keep at the end of a heap by itself, at most.
const KEPT_AT_END: Bytes = Bytes::mib(64);

/// The heap of a thread but the first. One that is empty goes back to the system, unless there is to be as much room at the end
/// of the one before.
const HEAP: Bytes = Bytes::mib(64);

/// Keeps holes of up to a 64th of a limit, in one heap.
///
/// By itself glibc learns to keep blocks of up to 32 MiB: under a limit of 96 MiB a heap of at most 77 MiB then took 90.
/// Threads share the heap: each with its own would keep holes of its own, which no other thread may use.
pub(crate) fn keep_few(limit: Bytes) {
    set(Setting::Heaps, 1);
    let most = Bytes(limit.0 / PARTS).max(SMALLEST_MAPPED);
    keep(most.min(LARGEST_KEPT), most);
}

/// Keeps holes in a heap for each thread, which are up to a 64th of all memory together where that is more than glibc keeps by
/// itself.
pub(crate) fn keep_many(all: Bytes) {
    set(Setting::RoomAtEnd, HEAP.0);
    let n_cores = thread::available_parallelism().map_or(1, |it| it.get() as u64);
    keep(LARGEST_KEPT, Bytes(all.0 / PARTS / n_cores).max(KEPT_AT_END));
}

/// Keeps what the program gives back: smaller blocks than these, and as much as that at the end of a heap.
///
/// What goes back to the system comes again page by page, each with a fault, and passes take and give back all of their memory
/// for each part of a step.
/// Larger blocks have a mapping of their own, which goes back with them.
/// Other allocators than glibc's are left as they are.
fn keep(mapped_from: Bytes, at_end: Bytes) {
    set(Setting::MapFrom, mapped_from.0);
    // By itself glibc gives back what is free beyond 128 KiB once it was told what to map.
    set(Setting::KeepAtEnd, at_end.0);
}

#[derive(Clone, Copy)]
enum Setting {
    Heaps,
    MapFrom,
    KeepAtEnd,
    RoomAtEnd,
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "a setting of the C library")]
fn set(setting: Setting, value: u64) {
    let setting = match setting {
        Setting::Heaps => libc::M_ARENA_MAX,
        Setting::MapFrom => libc::M_MMAP_THRESHOLD,
        Setting::KeepAtEnd => libc::M_TRIM_THRESHOLD,
        Setting::RoomAtEnd => libc::M_TOP_PAD,
    };
    let value = libc::c_int::try_from(value).unwrap_or(libc::c_int::MAX);
    // SAFETY: `mallopt` may be called at any time; it takes the lock of the allocator. A value that it refuses changes
    // nothing.
    unsafe { libc::mallopt(setting, value) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn set(_setting: Setting, _value: u64) {}
