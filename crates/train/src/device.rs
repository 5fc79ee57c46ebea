//! From a device's name to Burn's device.

use burn::tensor::Device;
use plimsoll_probe::DeviceKind;

/// A device that this build does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("open {device}: this build leaves it out; build again with `--features {feature}`")]
pub struct DeviceMissing {
    /// The device.
    pub device: String,
    /// The feature that brings it.
    pub feature: &'static str,
}

/// Opens a Burn device with gradients, and with gradient checkpointing where asked for.
///
/// Open the probe first: it says in words what is missing where a driver is.
///
/// # Errors
///
/// [`DeviceMissing`] when the build leaves the device out.
pub fn open_device(kind: DeviceKind, checkpointing: bool) -> Result<Device, DeviceMissing> {
    let device = plain_device(kind)?.autodiff();
    Ok(if checkpointing { device.gradient_checkpointing() } else { device })
}

/// Describes a device, with what changes its memory: fusion and autotune are off in this version.
pub fn describe(kind: DeviceKind) -> String {
    match kind {
        DeviceKind::Flex => format!("flex ({} threads)", std::thread::available_parallelism().map_or(1, usize::from)),
        DeviceKind::Vulkan(_) | DeviceKind::Cuda(_) => format!("{kind} (no fusion, no autotune)"),
    }
}

/// Returns the largest batch that runs other kernels than every larger one, or 0 where there is no such batch.
///
/// Flex computes the gradient of a convolution's weights as a convolution in which the batch takes the place of the
/// input channels, and convolutions of at most 4 input channels take another path, with less memory and 4 times the
/// time (measured with 16 channels on burn-flex 0.22.1, `SMALL_CHANNEL_IN_THRESHOLD`).
pub fn small_batch_regime(kind: DeviceKind) -> u32 {
    match kind {
        DeviceKind::Flex => 4,
        DeviceKind::Vulkan(_) | DeviceKind::Cuda(_) => 0,
    }
}

fn plain_device(kind: DeviceKind) -> Result<Device, DeviceMissing> {
    match kind {
        #[cfg(feature = "flex")]
        DeviceKind::Flex => Ok(Device::flex()),
        #[cfg(feature = "vulkan")]
        DeviceKind::Vulkan(index) => Ok(Device::vulkan(vulkan_kind(index))),
        #[cfg(feature = "cuda")]
        DeviceKind::Cuda(index) => Ok(Device::cuda(index)),
        #[allow(unreachable_patterns, reason = "with all features on every kind has its arm")]
        kind => Err(DeviceMissing { device: kind.to_string(), feature: feature(kind) }),
    }
}

#[allow(dead_code, reason = "with all features on nothing is missing")]
fn feature(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Flex => "flex",
        DeviceKind::Vulkan(_) => "vulkan",
        DeviceKind::Cuda(_) => "cuda",
    }
}
