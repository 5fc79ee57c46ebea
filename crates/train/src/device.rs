//! From a device's name to Burn's device.

use std::sync::{Arc, Mutex, Once, PoisonError};

use burn::tensor::kind::Basic;
use burn::tensor::{DType, Device, GradientCheckpointingStrategy, Tensor, TensorData};
use plimsoll_predict::{Dtype, Keys, Platform, PredictError, PredictorConfig};
use plimsoll_probe::{DeviceKind, Probe, ProbeError, count_as_worker, open};
use plimsoll_step::{ProgramNeeds, Replicas, StepError};
use plimsoll_types::{Bytes, Features, Recompute};

use crate::names::checksum;

/// A device that this build, or this machine, does not have.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct DeviceMissing(#[from] pub ProbeError);

/// Which devices are measured, for whoever asks for another.
pub const MEASURED: &str = "a CPU by Flex, Vulkan or CUDA is measured, where this build has its feature";

/// Opens a Burn device with gradients.
///
/// Open the probe first: it starts the device, and says in words what is missing where a driver is.
///
/// # Errors
///
/// [`DeviceMissing`] when the build leaves the device out, or the machine has no Vulkan adapter at that index.
pub fn open_device(kind: DeviceKind) -> Result<Device, DeviceMissing> {
    let device = plain_device(kind)?;
    warm_up(kind, &device);
    Ok(device.autodiff())
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

/// Copies host data to a device, by way of memory that is sent from while the device computes, where it has such: on CUDA,
/// pages that the system does not move.
///
/// What it gains there was not measured.
///
/// # Sources
///
/// `Client::staging` in `client.rs` of cubecl-runtime 0.11.3; on Vulkan it is refused, and nothing changes.
pub fn sent<const D: usize, K: Basic>(mut data: TensorData, device: &Device) -> Tensor<D, K> {
    device.staging(std::iter::once(&mut data));
    Tensor::from_data(data, device)
}

/// Describes a device, with what changes its memory: fusion, autotune and threads.
///
/// Flex computes on the threads of Rayon's pool that the calling thread is in: one where it [computes alone](compute_alone).
pub fn describe(kind: DeviceKind) -> String {
    let with = |name: &str, on: bool| if on { name.to_owned() } else { format!("no {name}") };
    match kind {
        DeviceKind::Flex => match rayon::current_num_threads() {
            1 => "flex (1 thread)".to_owned(),
            n => format!("flex ({n} threads)"),
        },
        DeviceKind::Vulkan(_) | DeviceKind::Cuda(_) => {
            format!("{kind} ({}, {})", with("fusion", has_fusion(kind)), with("autotune", has_autotune(kind)))
        }
    }
}

/// Has Flex compute on the calling thread alone from now on, whatever cores there are: its sums of 4 Mi elements and more are
/// divided among threads as those happen to be free, and their last bits differ.
///
/// To be called before anything is opened, planned or described. A thread that is one of a pool already stays there.
///
/// # Sources
///
/// `sum_f32_contiguous` of burn-flex 0.22.1; `ThreadPoolBuilder::use_current_thread` of Rayon 1.12.
pub fn compute_alone() {
    drop(rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build());
}

/// Returns how many threads this process was told to compute on, by `RAYON_NUM_THREADS`.
pub fn told_threads() -> Option<usize> {
    std::env::var("RAYON_NUM_THREADS").ok().and_then(|it| it.parse().ok()).filter(|n| 0 < *n)
}

/// Returns how many threads may compute at once: as many as the process may use cores, or as it was [told](told_threads).
pub fn n_cores() -> usize {
    told_threads().unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Returns the replicas of this process, with what they keep for matrix products; starts them where there are not as many.
///
/// # Errors
///
/// [`StepError`] when the system has no room for so many threads.
pub fn replicas(n: usize) -> Result<Arc<Replicas>, StepError> {
    static STARTED: Mutex<Option<Arc<Replicas>>> = Mutex::new(None);
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(replicas) = started.as_ref().filter(|it| it.count() == n) {
        return Ok(Arc::clone(replicas));
    }
    // Those of another number end first.
    *started = None;
    let device = plain_device(DeviceKind::Flex).map_err(|error| StepError::Probe(error.0))?;
    let replicas = Arc::new(Replicas::start(n, || multiply(&device))?);
    Ok(Arc::clone(started.insert(replicas)))
}

/// Starts the threads that Flex computes on, and has each take the memory that it keeps for good, so that no step is the first
/// to do so: packing a matrix product takes as much as the second cache of a core holds.
///
/// # Sources
///
/// `L2_SLAB` of gemm-common 0.19.0, whose packing the product of two matrices of 32 × 32 reaches.
pub fn warm_up(kind: DeviceKind, device: &Device) {
    static THREADS: Once = Once::new();
    if kind != DeviceKind::Flex {
        return;
    }
    let device = if device.is_autodiff() { &device.clone().inner() } else { device };
    THREADS.call_once(|| {
        rayon::broadcast(|_| {
            count_as_worker();
            multiply(device);
        });
    });
    multiply(device);
}

/// Multiplies two small matrices.
fn multiply(device: &Device) {
    let ones = || Tensor::<2>::ones([32, 32], device);
    drop(ones().matmul(ones()).into_data());
}

/// Whether a device has numbers of this format.
///
/// # Errors
///
/// As [`open_device`].
pub fn computes_in(kind: DeviceKind, dtype: Dtype) -> Result<bool, DeviceMissing> {
    let device = plain_device(kind)?;
    Ok(device.supports_dtype(match dtype {
        Dtype::F32 => DType::F32,
        Dtype::F16 => DType::F16,
        Dtype::Bf16 => DType::BF16,
        Dtype::F64 => DType::F64,
    }))
}

/// Whether operations are fused on the device: wherever Burn can.
pub fn has_fusion(kind: DeviceKind) -> bool {
    kind != DeviceKind::Flex
}

/// Whether this build chooses kernels by timing on the device.
pub fn has_autotune(kind: DeviceKind) -> bool {
    cfg!(feature = "autotune") && kind != DeviceKind::Flex
}

/// Returns what decides how much a step allocates on the device, besides the step; `name` is the probe's.
///
/// A fingerprint of Flex holds the threads that it computes on, each of which has its own scratch memory.
pub fn platform(kind: DeviceKind, name: &str) -> Platform {
    let device = match kind {
        DeviceKind::Flex => checksum(&format!("{name}, {}", describe(kind))),
        DeviceKind::Vulkan(_) | DeviceKind::Cuda(_) => checksum(name),
    };
    Platform { device, dtype: Dtype::F32, fusion: has_fusion(kind), autotune: has_autotune(kind) }
}

/// Returns how passes on the device compute, and on what; `name` is the probe's.
pub(crate) fn keys(kind: DeviceKind, name: &str, (recompute, dtype): (Recompute, Dtype)) -> Keys {
    let platform = Platform { dtype, ..platform(kind, name) };
    Keys { recompute, platform, small_batch: small_batch_regime(kind) }
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

/// Returns what is known of a program's needs, of tensors that are combinations of features over one axis, before its first
/// step on a device with gradients.
///
/// # Errors
///
/// [`PredictError::NotOfLengths`] for features over several axes.
pub fn program_needs(
    kind: DeviceKind,
    device: &Device,
    probe: &dyn Probe,
    features: Features,
) -> Result<ProgramNeeds, PredictError> {
    warm_up(kind, device);
    let config = PredictorConfig { beside: beside_tensors(kind), ..PredictorConfig::of_lengths(features)? };
    ProgramNeeds::try_new(program_keys(kind, device, &probe.name()), config, probe.has_exact_peak())
}

/// Returns what the keys of a program have in common on a device that its probe calls so.
pub fn program_keys(kind: DeviceKind, device: &Device, name: &str) -> Keys {
    let sparing = device.gradient_checkpointing_strategy();
    let is_on = sparing.is_some_and(|it| it != GradientCheckpointingStrategy::Disabled);
    keys(kind, name, (if is_on { Recompute::ALWAYS } else { Recompute::NEVER }, Dtype::F32))
}

/// Whether the process outlives a step that is to need no more than a capacity, and needs up to twice as much.
pub fn survives(kind: DeviceKind, capacity: Bytes) -> bool {
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
