//! How data are loaded: what they may take, what they took, and how far they are.

use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use plimsoll_probe::{DeviceKind, HeapCounters, Host, Probe};
use plimsoll_train::{HostMemory, StopFlag, computes_in};
use plimsoll_types::{Bytes, MemoryReading};
use plimsoll_workloads::{AboutFolder, Hooked, Hooks, Room, StoreConfig, Watch};

use crate::beat::Beat;
use crate::device::{open_device, open_probe};
use crate::exit::{Interrupted, describe, user_error};
use crate::harness::Harness;
use crate::settings::Settings;
use crate::shell::program;
use crate::values::JobName;

/// The part of the free disk that what is decoded may take unless a limit is set: one in so many.
#[cfg(unix)]
const DISK_SHARE: u64 = 4;

/// What it may take where nobody says how much of the disk is free.
const UNKNOWN_DISK: Bytes = Bytes::gib(4);

/// A device that is open, and what loading may use beside it.
pub(crate) struct Loading<'a> {
    pub(crate) harness: &'static dyn Harness,
    pub(crate) probe: Box<dyn Probe>,
    pub(crate) capacity: Bytes,
    /// Where what is decoded goes: the run's directory, or that of temporary files.
    folder: &'a Path,
    /// Ranks that decode into that folder.
    n_ranks: u64,
    job: JobName,
    stop: StopFlag,
    begun: Instant,
}

/// What loading took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loaded {
    /// High-water mark of the process, where its memory is the device's.
    pub(crate) peak: Option<Bytes>,
    pub(crate) time: Duration,
}

/// Refuses a number format that a device of the run does not have.
fn check_precision(settings: &Settings) -> anyhow::Result<()> {
    let dtype = settings.dtype();
    for (device, _) in settings.devices() {
        if !computes_in(device, dtype)? {
            let message =
                format!("compute in {dtype} on {device}: it has no such numbers, and `train.precision = \"f32\"` does");
            return Err(user_error(message).into());
        }
    }
    Ok(())
}

impl<'a> Loading<'a> {
    /// Opens the device, and draws the line at what there is now; `folder` takes what so many ranks decode, and the wish to end
    /// is heeded.
    pub(crate) fn begin(
        harness: &'static dyn Harness,
        settings: &Settings,
        (folder, n_ranks): (&'a Path, u64),
        stop: StopFlag,
    ) -> anyhow::Result<Self> {
        let beat = Beat::start("device");
        let (mut probe, capacity) = open_device(harness, settings)?;
        check_precision(settings)?;
        probe.reset_peak()?;
        // Another one, so that this one reads anew what there is when the data are loaded.
        open_probe(harness, settings)?.draw_line(None)?;
        drop(beat);
        Ok(Self { harness, probe, capacity, folder, n_ranks, job: settings.job, stop, begun: Instant::now() })
    }

    /// Returns what may be used: on a CPU the capacity covers loading too, elsewhere it is what the host has.
    pub(crate) fn room(&self, settings: &Settings) -> Room {
        let in_use = self.reading().map_or_else(held, |it| it.in_use);
        let capacity = host_memory(settings, self.capacity).size();
        let limit = settings.data.store_limit.0.unwrap_or_else(|| Bytes(share_of_disk(self.folder).0 / self.n_ranks));
        Room { capacity, in_use, store: StoreConfig { folder: self.folder.to_owned(), limit } }
    }

    /// Reads the data, shows how far that is when it takes long, and ends it when the run is asked to end.
    pub(crate) fn read<T, E: Error + AboutFolder + 'static>(
        &self,
        read: impl FnOnce(Watch<'_>) -> Result<T, E>,
    ) -> anyhow::Result<T> {
        let (stop, beat) = (self.stop.clone(), Beat::start("loading"));
        let mut ended_by = None;
        let data = read(&mut |n_done, n| {
            beat.at("", n_done, n);
            ended_by = stop.signal();
            if ended_by.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        drop(beat);
        match (data, ended_by) {
            (Err(_), Some(signal)) => Err(Interrupted { signal }.into()),
            (data, _) => data.map_err(|error| user_error(self.described(&error)).into()),
        }
    }

    /// Describes an error, and where to read on when the folder is not what the job needs.
    fn described<E: Error + AboutFolder + 'static>(&self, error: &E) -> String {
        let job = self.job.word();
        let page = format!("; `{} data {job}` says what a folder must hold", program());
        describe(error) + if error.is_about_folder() { &page } else { "" }
    }

    /// Lets the harness watch the job that is made of the data.
    pub(crate) fn watched<J>(&self, job: J) -> Hooked<J, dyn Hooks> {
        Hooked { job, hooks: self.harness.hooks() }
    }

    /// Returns what loading took so far.
    pub(crate) fn taken(&self) -> Loaded {
        Loaded { peak: self.reading().map(|it| it.peak), time: self.begun.elapsed() }
    }

    /// Reads the memory of the process, where it is the device's.
    fn reading(&self) -> Option<MemoryReading> {
        if self.probe.has_exact_peak() { self.probe.read().ok() } else { None }
    }
}

/// Returns what samples and what is made of them may take: of the device on a CPU, elsewhere of the host.
pub(crate) fn host_memory(settings: &Settings, capacity: Bytes) -> HostMemory {
    match settings.device() {
        DeviceKind::Flex => HostMemory::Capacity(capacity),
        DeviceKind::Vulkan(_) | DeviceKind::Cuda(_) => {
            HostMemory::BesideDevice(Host::new().capacity(held()).unwrap_or(Bytes::MAX))
        }
    }
}

/// Returns what the program holds.
pub(crate) fn held() -> Bytes {
    Bytes(HeapCounters::of_program().current() as u64)
}

/// Returns a part of what the disk of a folder has free.
#[cfg(unix)]
fn share_of_disk(folder: &Path) -> Bytes {
    let free = rustix::fs::statvfs(folder).map(|it| it.f_bavail.saturating_mul(it.f_frsize));
    free.map_or(UNKNOWN_DISK, |free| Bytes(free / DISK_SHARE))
}

#[cfg(not(unix))]
fn share_of_disk(_folder: &Path) -> Bytes {
    UNKNOWN_DISK
}
