//! What the NVIDIA driver knows of its devices, asked through `cuMemGetInfo` and NVML.
//!
//! Both libraries are loaded when they are first asked for: a program built with this runs where there is no driver.

use std::sync::Arc;

use cudarc::driver::{CudaContext, DriverError, sys};
use nvml_wrapper::Nvml;
use plimsoll_types::Bytes;
use serde::{Deserialize, Serialize};

use crate::ProbeError;

mod nvml;

const VENDOR: &str = "NVIDIA";

/// Every function of the driver that is called here. The bindings look each one up at its first call and panic when it
/// is missing, so all are looked for beforehand.
const SYMBOLS: [&str; 12] = [
    "cuInit",
    "cuGetErrorString",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetName",
    "cuDeviceGetUuid_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuMemGetInfo_v2",
];

/// One NVIDIA device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvidiaDevice {
    /// The driver's index, which `CUDA_VISIBLE_DEVICES` changes.
    pub index: usize,
    /// The product's name.
    pub name: String,
    /// The memory of the device.
    pub total: Bytes,
    /// What no process holds.
    pub free: Bytes,
    /// What other processes hold; `None` where NVML is not installed, or names processes that cannot be told from this
    /// one (inside most containers), or does not know the device by its id (a MIG slice).
    pub other_processes: Option<Bytes>,
    /// The driver's version (`580.95.05`); `None` where NVML is not installed.
    pub driver: Option<String>,
}

/// Returns every device that the driver shows.
///
/// # Errors
///
/// [`ProbeError::NoDriver`] where none is installed, [`ProbeError::DriverTooOld`] when it lacks a function,
/// [`ProbeError::Driver`] when it refuses a query.
pub fn devices() -> Result<Vec<NvidiaDevice>, ProbeError> {
    (0..count()?).map(device).collect()
}

/// Returns how many devices the driver shows.
///
/// # Errors
///
/// Those of [`devices`].
pub fn count() -> Result<usize, ProbeError> {
    require_driver()?;
    let count = CudaContext::device_count().map_err(|error| refused("its devices", error))?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Returns the device at `index`, opening the driver's context for the moment of the question.
///
/// # Errors
///
/// [`ProbeError::NoDevice`] when there are fewer, and those of [`devices`].
pub fn device(index: usize) -> Result<NvidiaDevice, ProbeError> {
    let driver = NvidiaDriver::try_new(index)?;
    let (free, total) = driver.free_and_total()?;
    let name = driver.context.name().map_err(|error| refused(format!("the name of cuda:{index}"), error))?;
    let nvml = Nvml::init().ok();
    let other_processes = nvml.as_ref().and_then(|nvml| nvml::held_by_others(nvml, &driver.uuid()?));
    let driver = nvml.and_then(|nvml| nvml.sys_driver_version().ok());
    Ok(NvidiaDevice { index, name, total, free, other_processes, driver })
}

/// A device whose driver context stays open: the one that CubeCL uses too.
pub(crate) struct NvidiaDriver {
    context: Arc<CudaContext>,
}

impl NvidiaDriver {
    pub(crate) fn try_new(index: usize) -> Result<Self, ProbeError> {
        let available = count()?;
        if available <= index {
            return Err(ProbeError::NoDevice { device: format!("cuda:{index}"), available });
        }
        let context = CudaContext::new(index).map_err(|error| refused(format!("a context on cuda:{index}"), error))?;
        Ok(Self { context })
    }

    /// Returns the memory that no process holds, and all memory of the device.
    pub(crate) fn free_and_total(&self) -> Result<(Bytes, Bytes), ProbeError> {
        let (free, total) = self
            .context
            .mem_get_info()
            .map_err(|error| refused(format!("the memory of cuda:{}", self.context.ordinal()), error))?;
        Ok((Bytes(free as u64), Bytes(total as u64)))
    }

    /// Returns the device's id as NVML writes it.
    fn uuid(&self) -> Option<String> {
        self.context.uuid().ok().map(|uuid| nvml::uuid_text(uuid.bytes.map(|byte| byte.to_ne_bytes()[0])))
    }
}

/// Looks for the driver and for each of its functions.
#[expect(unsafe_code, reason = "looking for a library means loading it")]
fn require_driver() -> Result<(), ProbeError> {
    // SAFETY: the call only tries to load each name that the driver's library may have; a driver that is installed is
    // trusted by every program that uses it.
    if !unsafe { sys::is_culib_present() } {
        return Err(ProbeError::NoDriver { vendor: VENDOR, library: "libcuda.so.1 (nvcuda.dll on Windows)" });
    }
    // SAFETY: the library is there, and a symbol that is only looked up is never called.
    let has = |symbol: &&str| unsafe { sys::culib().get::<unsafe extern "C" fn()>(symbol.as_bytes()).is_ok() };
    match SYMBOLS.iter().find(|symbol| !has(symbol)) {
        Some(symbol) => Err(ProbeError::DriverTooOld { vendor: VENDOR, symbol }),
        None => Ok(()),
    }
}

fn refused(what: impl Into<String>, error: DriverError) -> ProbeError {
    ProbeError::Driver { what: what.into(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_is_no_driver_the_error_says_so_and_nothing_panics() {
        match devices() {
            Ok(devices) => assert!(devices.iter().all(|it| it.free <= it.total && it.total > Bytes::ZERO)),
            Err(error @ ProbeError::NoDriver { .. }) => assert_eq!(
                error.to_string(),
                "load the NVIDIA driver: libcuda.so.1 (nvcuda.dll on Windows) is not installed, or not where the \
                 loader looks"
            ),
            Err(error) => assert!(matches!(error, ProbeError::Driver { .. } | ProbeError::DriverTooOld { .. })),
        }
    }
}
