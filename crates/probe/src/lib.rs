//! How much memory is there, and how much was used?
//!
//! A [`Probe`] turns a device into a [`MemoryReading`](plimsoll_types::MemoryReading): the heap of this program, which
//! [`TrackingAllocator`] counts, or what CubeCL holds on a Vulkan or CUDA device.
//! [`open`] finds the probe for a [`DeviceKind`], [`open_among`] that of one of several devices of a program, and [`survey`]
//! lists everything that can be seen on this machine.
//!
//! # Invariants
//!
//! * No decisions: nothing here knows a target, a margin or a batch size.
//! * A number that cannot be had is an error that says why, never a zero; a missing driver is an error, never a panic.
//! * `reserved` is never less than `in_use`, and `peak` never less than what was in use at any moment since the last
//!   reset, as far as [`Probe::has_exact_peak`] promises.
//! * The device features only add devices: every function is there in every build, and says which feature it lacks.
//!
//! # Example
//!
//! ```
//! use plimsoll_probe::{DeviceKind, TrackingAllocator, open};
//!
//! #[global_allocator]
//! static HEAP: TrackingAllocator = TrackingAllocator::new();
//!
//! # fn main() -> Result<(), plimsoll_probe::ProbeError> {
//! let mut probe = open(DeviceKind::Flex, None)?;
//! probe.reset_peak()?;
//! let before = probe.read()?;
//! drop(vec![1u8; 1 << 20]);
//! let after = probe.read()?;
//! assert!(after.peak.0 >= before.in_use.0 + (1 << 20));
//! # Ok(())
//! # }
//! ```
//!
//! # Sources
//!
//! The memory report of CubeCL 0.11 (`cubecl-runtime/src/memory_management/base.rs`); `proc_meminfo(5)`; the kernel's
//! `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1/memory.rst`; `cuMemGetInfo` of the CUDA driver API; NVML's
//! `nvmlDeviceGetComputeRunningProcesses`.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod error;
mod kind;
mod probe;

mod allocator;
mod beside;
mod compartment;
mod counters;
mod heap;
mod packed;
mod refusal;
mod share;
mod threads;
mod workers;

mod cgroup;
mod holes;
mod host;
mod killed;
mod limits;
mod meminfo;
mod reread;

#[cfg(any(feature = "vulkan", feature = "cuda"))]
mod cube;
#[cfg(feature = "nvidia")]
pub mod nvidia;
#[cfg(any(feature = "vulkan", feature = "cuda"))]
mod vulkan;

mod capped;
mod open;
mod sharing;
mod survey;

pub use allocator::TrackingAllocator;
pub use capped::CappedProbe;
pub use cgroup::CgroupLimit;
pub use compartment::Compartment;
pub use counters::HeapCounters;
#[cfg(any(feature = "vulkan", feature = "cuda"))]
pub use cube::CubeProbe;
pub use error::ProbeError;
pub use heap::HeapProbe;
pub use host::Host;
pub use killed::OomKills;
pub use kind::{DeviceKind, ParseDeviceKindError};
pub use meminfo::HostMemory;
pub use open::{open, open_among};
pub use probe::Probe;
pub use refusal::{ParseRefusalError, Refusal, note_refusals_in, note_work, say_refusals_to};
pub use share::Share;
pub use survey::{Survey, SurveyEntry, survey};
pub use threads::{count_as_worker, count_beside};
#[cfg(any(feature = "vulkan", feature = "cuda"))]
pub use vulkan::VulkanAdapter;

/// The example of the README, which is tested with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
