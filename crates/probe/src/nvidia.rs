//! What the NVIDIA driver knows of its devices, asked through `cuMemGetInfo` and NVML.
//!
//! Both libraries are loaded when they are first asked for: a program built with this runs where there is no driver.

use std::sync::Arc;

use cudarc::driver::{CudaContext, DriverError, result, sys};
use nvml_wrapper::Nvml;
use plimsoll_types::Bytes;
use serde::{Deserialize, Serialize};

use crate::ProbeError;

mod nvml;

const VENDOR: &str = "NVIDIA";

/// The variable that hides devices from a program.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// Functions that tell a device's id, the best first: the second version, of CUDA 11.4, tells a MIG slice's own, the
/// first the whole card's.
const UUID_SYMBOLS: [&str; 2] = ["cuDeviceGetUuid_v2", "cuDeviceGetUuid"];

/// Every function of the driver that is called here. The bindings look each one up at its first call and panic when it
/// is missing, so all are looked for beforehand.
const SYMBOLS: [&str; 11] = [
    "cuInit",
    "cuGetErrorString",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetName",
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
    /// one (inside most containers).
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
    match CudaContext::device_count() {
        Ok(count) => Ok(usize::try_from(count).unwrap_or(0)),
        // What a driver answers that is there for no device, or for none that the program may see.
        Err(DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE)) => Ok(0),
        Err(error) => Err(refused("its devices", error)),
    }
}

/// Returns the device at `index`, opening the driver's context for the moment of the question: none is left behind.
///
/// # Errors
///
/// [`ProbeError::NoDevice`] when there are fewer, [`ProbeError::DevicesHidden`] when `CUDA_VISIBLE_DEVICES` leaves fewer,
/// and those of [`devices`].
pub fn device(index: usize) -> Result<NvidiaDevice, ProbeError> {
    require_driver()?;
    let before = result::ctx::get_current().ok().flatten().unwrap_or(std::ptr::null_mut());
    let device = NvidiaDriver::try_new(index).and_then(|driver| driver.describe());
    make_current(before);
    device
}

/// Returns why there is no device at `index`, of which the driver shows so many.
pub(crate) fn no_device(index: usize, available: usize) -> ProbeError {
    let visible = std::env::var_os(VISIBLE).map(|it| it.to_string_lossy().into_owned());
    missing(index, available, visible)
}

fn missing(index: usize, available: usize, visible: Option<String>) -> ProbeError {
    let device = format!("cuda:{index}");
    match visible {
        Some(value) => ProbeError::DevicesHidden { device, available, variable: VISIBLE, value },
        None => ProbeError::NoDevice { device, available },
    }
}

/// A device whose driver context stays open: the one that CubeCL uses too.
pub(crate) struct NvidiaDriver {
    context: Arc<CudaContext>,
    nvml: Option<Nvml>,
}

impl NvidiaDriver {
    pub(crate) fn try_new(index: usize) -> Result<Self, ProbeError> {
        let available = count()?;
        if available <= index {
            return Err(no_device(index, available));
        }
        let context = CudaContext::new(index).map_err(|error| refused(format!("a context on cuda:{index}"), error))?;
        Ok(Self { context, nvml: Nvml::init().ok() })
    }

    /// Returns the memory that no process holds, and all memory of the device.
    pub(crate) fn free_and_total(&self) -> Result<(Bytes, Bytes), ProbeError> {
        let (free, total) = self
            .context
            .mem_get_info()
            .map_err(|error| refused(format!("the memory of cuda:{}", self.context.ordinal()), error))?;
        Ok((Bytes(free as u64), Bytes(total as u64)))
    }

    /// Returns what other processes hold, as NVML counts it: this one's context and kernels are not theirs.
    pub(crate) fn held_by_others(&self) -> Option<Bytes> {
        nvml::held_by_others(self.nvml.as_ref()?, self.uuid()?)
    }

    fn describe(&self) -> Result<NvidiaDevice, ProbeError> {
        let index = self.context.ordinal();
        let (free, total) = self.free_and_total()?;
        let name = self.context.name().map_err(|error| refused(format!("the name of cuda:{index}"), error))?;
        let driver = self.nvml.as_ref().and_then(|nvml| nvml.sys_driver_version().ok());
        Ok(NvidiaDevice { index, name, total, free, other_processes: self.held_by_others(), driver })
    }

    /// Returns the device's id: that of the MIG slice where the driver tells it, else that of the card.
    fn uuid(&self) -> Option<[u8; 16]> {
        let uuid = UUID_SYMBOLS.into_iter().find_map(|symbol| uuid_by(symbol, self.context.cu_device()))?;
        Some(uuid.bytes.map(|byte| byte.to_ne_bytes()[0]))
    }
}

/// Asks for a device's id by one function of the driver, if it has that.
#[expect(unsafe_code, reason = "the bindings know only one of the two functions, by the version they are built for")]
fn uuid_by(symbol: &str, device: sys::CUdevice) -> Option<sys::CUuuid> {
    type GetUuid = unsafe extern "C" fn(*mut sys::CUuuid, sys::CUdevice) -> sys::CUresult;
    let mut uuid = sys::CUuuid { bytes: [0; 16] };
    // SAFETY: a context is open, so the library is there; both functions have this type (the CUDA driver API), and write
    // 16 bytes through the pointer.
    let result = unsafe { sys::culib().get::<GetUuid>(symbol.as_bytes()).ok()?(&raw mut uuid, device) };
    (result == sys::CUresult::CUDA_SUCCESS).then_some(uuid)
}

/// Makes a context current on this thread again; a null one means none.
#[expect(unsafe_code, reason = "the driver takes a raw context")]
fn make_current(context: sys::CUcontext) {
    // SAFETY: the driver named this context as current on this thread before, and whoever opened it still holds it; null
    // is allowed.
    let answer = unsafe { result::ctx::set_current(context) };
    // Where it refuses, the thread keeps what it has.
    answer.unwrap_or_default();
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

/// Held by the tests that open a context, so that none counts another's.
#[cfg(test)]
pub(crate) static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[cfg(test)]
mod tests {
    use std::sync::PoisonError;

    use super::*;

    #[test]
    fn where_there_is_no_driver_the_error_says_so_and_nothing_panics() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        match devices() {
            Ok(devices) => {
                assert!(devices.iter().all(|it| it.free <= it.total && it.total > Bytes::ZERO));
                assert!((0..devices.len()).all(|index| !has_context(index)), "a question leaves no context behind");
            }
            Err(error @ ProbeError::NoDriver { .. }) => assert_eq!(
                error.to_string(),
                "load the NVIDIA driver: libcuda.so.1 (nvcuda.dll on Windows) is not installed, or not where the \
                 loader looks"
            ),
            Err(error) => assert!(matches!(error, ProbeError::Driver { .. } | ProbeError::DriverTooOld { .. })),
        }
    }

    #[expect(unsafe_code, reason = "the bindings have no safe word for it")]
    fn has_context(index: usize) -> bool {
        let device = result::device::get(i32::try_from(index).unwrap()).unwrap();
        let (mut flags, mut active) = (0, 0);
        // SAFETY: the driver is there, the device is one that it named, and both pointers are to local numbers.
        let result = unsafe { sys::cuDevicePrimaryCtxGetState(device, &raw mut flags, &raw mut active) };
        assert_eq!(result, sys::CUresult::CUDA_SUCCESS);
        active != 0
    }

    #[test]
    fn devices_that_are_hidden_are_not_missing() {
        assert_eq!(
            missing(0, 0, Some(String::new())).to_string(),
            "open cuda:0: `CUDA_VISIBLE_DEVICES=` leaves 0 devices to this program, counted from 0; name more in it, or \
             unset it"
        );
        let error = missing(1, 1, Some("3".to_owned()));
        assert!(error.to_string().contains("`CUDA_VISIBLE_DEVICES=3` leaves 1 devices"), "{error}");
        assert!(matches!(missing(1, 1, None), ProbeError::NoDevice { available: 1, .. }));
    }
}
