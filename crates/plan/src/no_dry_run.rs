//! A build without a device that keeps pools.

use burn::tensor::Device;
use plimsoll_probe::{DeviceKind, ProbeError};
use plimsoll_types::Bytes;

use crate::{Act, PlanError, Pools, Program, Rehearsal};

/// Plans on a device whose allocator keeps pools: none is in this build.
#[derive(Debug)]
pub enum DryRunPlanner {}

impl DryRunPlanner {
    /// Says which feature is missing.
    ///
    /// # Errors
    ///
    /// [`PlanError::NoPools`] for a device without pools, otherwise [`ProbeError::FeatureMissing`].
    pub fn try_open(kind: DeviceKind) -> Result<Self, PlanError> {
        let device = kind.to_string();
        Err(match kind {
            DeviceKind::Flex => PlanError::NoPools { device },
            DeviceKind::Vulkan(_) => ProbeError::FeatureMissing { device, feature: "vulkan" }.into(),
            DeviceKind::Cuda(_) => ProbeError::FeatureMissing { device, feature: "cuda" }.into(),
        })
    }

    /// Never called: there is no planner.
    ///
    /// # Errors
    ///
    /// None.
    pub fn page_limit(&self) -> Result<Bytes, PlanError> {
        match *self {}
    }

    /// Never called: there is no planner.
    pub fn n_made_again(&self) -> u64 {
        match *self {}
    }

    /// Never called: there is no planner.
    pub fn pools(&self, _device: &Device) -> Pools {
        match *self {}
    }

    /// Never called: there is no planner.
    pub fn really<T>(&self, _device: &Device, _work: impl FnOnce() -> T) -> T {
        match *self {}
    }

    /// Never called: there is no planner.
    ///
    /// # Errors
    ///
    /// None.
    pub fn rehearse<P: Program>(&self, _program: &P, _acts: &[Act]) -> Result<Rehearsal, PlanError> {
        match *self {}
    }
}
