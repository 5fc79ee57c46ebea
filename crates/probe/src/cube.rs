//! What CubeCL's allocator holds on a device.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cubecl::client::Client;
use cubecl::device::DeviceUnavailable;
use cubecl::{Device, MemoryReport, MemoryScope};
use plimsoll_types::{Bytes, MemoryReading, SMALLEST_PAGE};

use crate::sharing::Sharing;
use crate::{DeviceKind, Probe, ProbeError, VulkanAdapter};

mod report;

/// Reads the memory report of CubeCL's server for one device: the server of the Burn device with the same name.
///
/// `in_use` is what live tensors hold; `reserved` is what the allocator has taken from the driver, of all streams, the
/// buffers that the runtime keeps for itself included, and pages that a dry run has booked.
///
/// # Peak
///
/// CubeCL keeps no high-water mark that can be reset.
/// Pages are reserved as they are needed and kept until a cleanup, so what is reserved at the end of a step, before any
/// cleanup, is the peak of the step: that is what [`read`](Probe::read) reports as `peak`, and why
/// [`reset_peak`](Probe::reset_peak) has nothing to do.
/// It also holds what earlier, larger steps reserved; a [`cleanup`](Probe::cleanup) before the step removes that.
/// The one thing that it misses are pages of an outgrown size that were released within the step: run the step with the
/// largest tensor first.
///
/// # Several in one process
///
/// A device that [several ranks](crate::open_among) of a process have together is read for each by the stream of the thread
/// that asks, which has pools of its own. A cleanup takes the empty pages of all of them: none is told apart by CubeCL.
///
/// # Cost
///
/// A reading waits for what this program has submitted to the device's thread, not for the device.
/// With Burn's fusion, flush the device before: operations that are not yet submitted hold nothing yet.
pub struct CubeProbe {
    kind: DeviceKind,
    client: Client,
    /// What it has of the device, where others have it too.
    sharing: Option<Sharing>,
    #[cfg(feature = "cuda")]
    driver: Option<crate::nvidia::NvidiaDriver>,
}

impl CubeProbe {
    /// Opens a Vulkan device; [`VulkanAdapter::try_at`] says which one an index means.
    ///
    /// # Errors
    ///
    /// [`ProbeError::NoDevice`] where there is none, [`ProbeError::OpenFailed`] when it does not start,
    /// [`ProbeError::FeatureMissing`] in a build without `vulkan`.
    pub fn try_vulkan(index: usize) -> Result<Self, ProbeError> {
        let kind = DeviceKind::Vulkan(index);
        if !cfg!(feature = "vulkan") {
            return Err(ProbeError::FeatureMissing { device: kind.to_string(), feature: "vulkan" });
        }
        let adapter = VulkanAdapter::try_at(index)?;
        let device = Device::vulkan(adapter.device_kind()).map_err(|error| unavailable(kind, error))?;
        Ok(Self {
            kind,
            client: start(kind, &device)?,
            sharing: None,
            #[cfg(feature = "cuda")]
            driver: None,
        })
    }

    /// Opens a CUDA device by the driver's index.
    ///
    /// # Errors
    ///
    /// [`ProbeError::NoDriver`] where none is installed, [`ProbeError::NoDevice`] when there are fewer devices,
    /// [`ProbeError::OpenFailed`] when it does not start.
    #[cfg(feature = "cuda")]
    pub fn try_cuda(index: usize) -> Result<Self, ProbeError> {
        let kind = DeviceKind::Cuda(index);
        let driver = crate::nvidia::NvidiaDriver::try_new(index)?;
        let device = Device::cuda(index).map_err(|error| unavailable(kind, error))?;
        Ok(Self { kind, client: start(kind, &device)?, sharing: None, driver: Some(driver) })
    }

    /// Opens a CUDA device: not in this build.
    ///
    /// # Errors
    ///
    /// [`ProbeError::FeatureMissing`], always.
    #[cfg(not(feature = "cuda"))]
    pub fn try_cuda(index: usize) -> Result<Self, ProbeError> {
        let device = DeviceKind::Cuda(index);
        Err(ProbeError::FeatureMissing { device: device.to_string(), feature: "cuda" })
    }

    /// Reads, where others have it too, what the stream of the calling thread has of it.
    pub(crate) fn sharing(self, sharing: Option<Sharing>) -> Self {
        Self { sharing, ..self }
    }

    /// Returns the connection to the device, for whoever wants to allocate on it or to know more.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the allocator's padding: what live tensors hold beyond what was asked for.
    pub fn padding(&self) -> Bytes {
        Bytes(self.report().usage().bytes_padding)
    }

    fn report(&self) -> MemoryReport {
        let of_thread = self.sharing.map(|_| MemoryScope::CurrentStream);
        self.client.memory_report(of_thread.unwrap_or(MemoryScope::Device))
    }

    /// Returns what all have of the device together.
    fn capacity_of_all(&self) -> Result<Bytes, ProbeError> {
        if let Some(capacity) = self.capacity_by_driver() {
            return capacity;
        }
        self.client.properties().memory.max_memory().map(Bytes).ok_or_else(|| ProbeError::CapacityUnknown {
            device: self.name(),
            reason: "its driver does not report the size of its memory".into(),
        })
    }

    /// Returns what the driver has free plus what CubeCL already holds of it.
    ///
    /// That is the device less other processes and less the driver's own context, and needs no list of processes.
    #[cfg(feature = "cuda")]
    fn capacity_by_driver(&self) -> Option<Result<Bytes, ProbeError>> {
        let answer = self.driver.as_ref()?.free_and_total();
        let report = self.client.memory_report(MemoryScope::Device);
        Some(answer.map(|(free, total)| free.saturating_add(report::backed(&report)).min(total)))
    }

    #[cfg(not(feature = "cuda"))]
    #[expect(clippy::unused_self, reason = "the same call in every build")]
    fn capacity_by_driver(&self) -> Option<Result<Bytes, ProbeError>> {
        None
    }
}

/// Starts the device's server, or finds the one that is running.
///
/// CubeCL panics when a device that is there does not start (no memory left for a context, a driver that lacks a
/// feature), and offers no other way to ask.
fn start(kind: DeviceKind, device: &Device) -> Result<Client, ProbeError> {
    catch_unwind(AssertUnwindSafe(|| device.client())).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let reason = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("its runtime did not start");
        ProbeError::OpenFailed { device: kind.to_string(), reason: reason.to_owned() }
    })
}

/// Returns the largest size of pages among the pools that hold any, and before there is one the smallest that the allocator
/// carves tensors from; it grows with the largest tensor so far, and never falls.
fn page(report: &MemoryReport) -> Bytes {
    report::largest_page(report).max(SMALLEST_PAGE)
}

fn unavailable(kind: DeviceKind, error: DeviceUnavailable) -> ProbeError {
    let device = kind.to_string();
    match error {
        DeviceUnavailable::NoSuchDevice { available, .. } => ProbeError::NoDevice { device, available },
        DeviceUnavailable::NotLinked(_) => ProbeError::OpenFailed { device, reason: error.to_string() },
    }
}

impl Probe for CubeProbe {
    fn name(&self) -> String {
        format!("{} ({})", self.kind, self.client.properties().identity.name)
    }

    fn read(&self) -> Result<MemoryReading, ProbeError> {
        let report = self.report();
        let (usage, page) = (report.usage(), page(&report));
        let [in_use, reserved] = [usage.bytes_in_use, usage.bytes_reserved].map(Bytes);
        Ok(MemoryReading { in_use, reserved, peak: reserved, page, packed: Bytes::ZERO })
    }

    fn reset_peak(&mut self) -> Result<(), ProbeError> {
        Ok(())
    }

    fn has_exact_peak(&self) -> bool {
        false
    }

    /// On CUDA, what the driver has free plus what CubeCL holds; on Vulkan, the largest heap of the device; of one that others
    /// have too, its part of that.
    fn capacity(&self) -> Result<Bytes, ProbeError> {
        let all = self.capacity_of_all()?;
        Ok(self.sharing.map_or(all, |it| it.part_of(all)))
    }

    /// Returns the allocator's largest page: a quarter of the card on CUDA, the largest buffer on Vulkan.
    fn largest_allocation(&self) -> Result<Bytes, ProbeError> {
        Ok(Bytes(self.client.properties().memory.max_page_size))
    }

    /// Returns every empty page to the driver; a page with a live tensor stays.
    fn cleanup(&mut self) -> Result<(), ProbeError> {
        self.client
            .memory_cleanup()
            .map_err(|error| ProbeError::CleanupRefused { device: self.name(), reason: error.to_string() })
    }

    /// On CUDA, what NVML counts for other processes; neither this one's context nor its kernels are theirs.
    #[cfg(feature = "cuda")]
    fn held_by_others(&self) -> Option<Bytes> {
        self.driver.as_ref()?.held_by_others()
    }

    fn largest_taken(&self) -> Option<Bytes> {
        Some(report::largest_taken(&self.report()))
    }
}

impl std::fmt::Debug for CubeProbe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CubeProbe").field("kind", &self.kind).finish_non_exhaustive()
    }
}
