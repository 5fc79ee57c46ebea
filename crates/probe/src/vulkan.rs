//! Which adapter an index means.

use cubecl::Device;
use cubecl::device::{WgpuBackend, WgpuDevice, WgpuDeviceKind};

use crate::{DeviceKind, ProbeError};

/// A Vulkan adapter in Burn's words (`burn::tensor::DeviceKind`).
///
/// CubeCL keeps one allocator per device *name*, not per card, so a program must open its Burn device under the same
/// name as the probe: `Device::vulkan(DeviceKind::DefaultDevice)` for [`Default`](Self::Default), and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VulkanAdapter {
    /// The one that Burn takes when none is named: index 0.
    Default,
    /// A discrete GPU, counted among its kind.
    Discrete(usize),
    /// An integrated GPU, counted among its kind.
    Integrated(usize),
    /// A virtual GPU, counted among its kind.
    Virtual(usize),
    /// A software driver; there is at most one.
    Software,
}

impl VulkanAdapter {
    /// Returns the adapter at `index`: the default one for 0, else the one at that place in the list of all adapters,
    /// discrete GPUs first, then integrated, virtual and software ones.
    ///
    /// # Errors
    ///
    /// [`ProbeError::NoDevice`] when there are fewer.
    pub fn try_at(index: usize) -> Result<Self, ProbeError> {
        if index == 0 {
            return Ok(Self::Default);
        }
        let all = Self::all();
        let device = DeviceKind::Vulkan(index).to_string();
        all.get(index).copied().ok_or(ProbeError::NoDevice { device, available: all.len() })
    }

    /// Returns all adapters of this machine in the order of their indices, the first one under its own name.
    pub fn all() -> Vec<Self> {
        let kinds: [fn(usize) -> Self; 4] = [Self::Discrete, Self::Integrated, Self::Virtual, |_| Self::Software];
        let mut all: Vec<Self> = kinds.into_iter().flat_map(|kind| (0..kind(0).count()).map(kind)).collect();
        all.dedup();
        all
    }

    /// Returns how many adapters of this kind the machine has.
    fn count(self) -> usize {
        let device = WgpuDevice::new(self.device_kind()).on(WgpuBackend::Vulkan);
        Device::enumerate(Device::Wgpu(device).to_id()).len()
    }

    /// Returns the adapter as CubeCL calls it.
    pub fn device_kind(self) -> WgpuDeviceKind {
        match self {
            Self::Default => WgpuDeviceKind::DefaultDevice,
            Self::Discrete(index) => WgpuDeviceKind::DiscreteGpu(index),
            Self::Integrated(index) => WgpuDeviceKind::IntegratedGpu(index),
            Self::Virtual(index) => WgpuDeviceKind::VirtualGpu(index),
            Self::Software => WgpuDeviceKind::Cpu,
        }
    }
}
