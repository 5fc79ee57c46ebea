//! From a device's name to Burn's device.

use burn::tensor::Device;
use plimsoll_predict::{Dtype, Platform};
use plimsoll_probe::{DeviceKind, ProbeError, open};
use plimsoll_types::Bytes;

/// A device that this build, or this machine, does not have.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct DeviceMissing(#[from] pub ProbeError);

/// Opens a Burn device with gradients, and with gradient checkpointing where asked for.
///
/// Open the probe first: it starts the device, and says in words what is missing where a driver is.
///
/// # Errors
///
/// [`DeviceMissing`] when the build leaves the device out, or the machine has no Vulkan adapter at that index.
pub fn open_device(kind: DeviceKind, checkpointing: bool) -> Result<Device, DeviceMissing> {
    let device = plain_device(kind)?.autodiff();
    Ok(if checkpointing { device.gradient_checkpointing() } else { device })
}

/// Hands what was made of host data to the device at once, and returns it.
///
/// `CubeCL`'s queue for Vulkan holds what is written until 32 launches follow or somebody waits, whoever has dropped it.
/// What a step allocates meanwhile lies elsewhere than in its rehearsal, which writes nothing, and at times takes a page
/// more, depending on which thread is faster.
///
/// # Sources
///
/// `ScheduleTask::Write` in `compute/schedule.rs` of cubecl-wgpu 0.11.3.
pub fn uploaded<T>(tensors: T, device: &Device) -> T {
    // What could not be written carries the failure, and a read of what depends on it fails with it.
    drop(device.flush());
    tensors
}

/// Describes a device, with what changes its memory: fusion, autotune and threads.
///
/// Flex computes on the thread that calls it: only with Burn's feature `rayon`, which nothing here turns on, would it
/// use others.
pub fn describe(kind: DeviceKind) -> String {
    let with = |name: &str, on: bool| if on { name.to_owned() } else { format!("no {name}") };
    match kind {
        DeviceKind::Flex => "flex (1 thread)".to_owned(),
        DeviceKind::Vulkan(_) | DeviceKind::Cuda(_) => {
            format!("{kind} ({}, {})", with("fusion", has_fusion(kind)), with("autotune", has_autotune(kind)))
        }
    }
}

/// Whether this build fuses operations on the device.
pub fn has_fusion(kind: DeviceKind) -> bool {
    cfg!(feature = "fusion") && kind != DeviceKind::Flex
}

/// Whether this build chooses kernels by timing on the device.
pub fn has_autotune(kind: DeviceKind) -> bool {
    cfg!(feature = "autotune") && kind != DeviceKind::Flex
}

/// Returns what decides how much a step allocates on the device, besides the step; `name` is the probe's.
pub fn platform(kind: DeviceKind, name: &str) -> Platform {
    // FNV-1a; any hash that is the same in every process would do.
    let device = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    Platform { device, dtype: Dtype::F32, fusion: has_fusion(kind), autotune: has_autotune(kind) }
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

/// What the tables of a small graph take at most: 30 KiB were seen in graphs of two to four blocks, 92 to 462 nodes.
const BESIDE_TENSORS: Bytes = Bytes::kib(64);

/// Returns what a step takes besides its tensors, where that counts: on a CPU, the tables in which Burn keeps the graph of a
/// step grow by doubling, and whether one does in a step depends on those before it.
///
/// Of larger graphs the nodes are read with each part: see [`PartReading::nodes`](plimsoll_predict::PartReading::nodes).
pub fn beside_tensors(kind: DeviceKind) -> Bytes {
    match kind {
        DeviceKind::Flex => BESIDE_TENSORS,
        DeviceKind::Vulkan(_) | DeviceKind::Cuda(_) => Bytes::ZERO,
    }
}

/// Whether the process outlives a step that is to need no more than a capacity, and needs up to twice as much.
pub(crate) fn survives(kind: DeviceKind, capacity: Bytes) -> bool {
    match kind {
        // The system takes what it cannot give as a reason to kill, but not a limit that was only set.
        DeviceKind::Flex => {
            open(kind, None).and_then(|probe| probe.capacity()).is_ok_and(|real| capacity.saturating_mul(2) <= real)
        }
        DeviceKind::Vulkan(_) | DeviceKind::Cuda(_) => true,
    }
}

/// Whether a device tells exact peaks of the bytes in use, and not merely what its allocator reserves.
pub const fn has_exact_peaks(kind: DeviceKind) -> bool {
    match kind {
        DeviceKind::Flex => true,
        DeviceKind::Vulkan(_) | DeviceKind::Cuda(_) => false,
    }
}

fn plain_device(kind: DeviceKind) -> Result<Device, DeviceMissing> {
    match kind {
        #[cfg(feature = "flex")]
        DeviceKind::Flex => Ok(Device::flex()),
        #[cfg(not(feature = "flex"))]
        DeviceKind::Flex => Err(left_out(kind, "flex")),
        #[cfg(feature = "vulkan")]
        DeviceKind::Vulkan(index) => Ok(Device::vulkan(vulkan_kind(index)?)),
        #[cfg(not(feature = "vulkan"))]
        DeviceKind::Vulkan(_) => Err(left_out(kind, "vulkan")),
        #[cfg(feature = "cuda")]
        DeviceKind::Cuda(index) => Ok(Device::cuda(index)),
        #[cfg(not(feature = "cuda"))]
        DeviceKind::Cuda(_) => Err(left_out(kind, "cuda")),
    }
}

/// The most devices of a kind that are looked for.
const MOST_DEVICES: usize = 64;

/// Returns which device of ours one of Burn's is, with gradients or without; `None` for one that is not measured, or that
/// this build leaves out.
pub fn device_kind(device: &Device) -> Option<DeviceKind> {
    let is_it = |kind: &DeviceKind| plain_device(*kind).is_ok_and(|it| it == *device);
    let cards = (0..MOST_DEVICES).flat_map(|index| [DeviceKind::Cuda(index), DeviceKind::Vulkan(index)]);
    [DeviceKind::Flex].into_iter().chain(cards).find(is_it)
}

/// Returns the name under which the probe opens the adapter.
///
/// `CubeCL` keeps one allocator per device name: under another name of the same card the probe would measure an
/// allocator that nobody uses.
#[cfg(feature = "vulkan")]
fn vulkan_kind(index: usize) -> Result<burn::tensor::DeviceKind, ProbeError> {
    use burn::tensor::DeviceKind as BurnKind;
    use plimsoll_probe::VulkanAdapter;
    Ok(match VulkanAdapter::try_at(index)? {
        VulkanAdapter::Default => BurnKind::DefaultDevice,
        VulkanAdapter::Discrete(index) => BurnKind::DiscreteGpu(index),
        VulkanAdapter::Integrated(index) => BurnKind::IntegratedGpu(index),
        VulkanAdapter::Virtual(index) => BurnKind::VirtualGpu(index),
        VulkanAdapter::Software => BurnKind::Cpu,
    })
}

#[cfg(not(all(feature = "flex", feature = "vulkan", feature = "cuda")))]
fn left_out(kind: DeviceKind, feature: &'static str) -> DeviceMissing {
    ProbeError::FeatureMissing { device: kind.to_string(), feature }.into()
}
