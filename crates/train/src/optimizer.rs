//! The state of an optimizer, read onto a device.

use std::path::Path;

use burn::module::ParamGroup;
use burn::optim::{DynOptimizer, DynState, LearningRate, ModuleOptimizer, Optimizer, StateSink, StateSource};
use burn::store::RecordError;
use burn::tensor::Device;
use burn::tensor::kind::BridgeTensor;

/// Reads the recorded state of an optimizer onto a device.
///
/// [`ModuleOptimizer::load`] of Burn 0.22 reads it onto the default device: in a build for several that is CUDA, then
/// Vulkan, whatever the model is on, and the state moves at its first step only.
///
/// # Errors
///
/// [`RecordError`] when the file is no record.
pub fn load_optimizer<O: Optimizer>(
    optimizer: O,
    path: &Path,
    device: &Device,
) -> Result<ModuleOptimizer, RecordError> {
    let on_device = OnDevice { optimizer: optimizer.clone(), device: device.clone().inner() };
    ModuleOptimizer::from(optimizer).with_group(ParamGroup::all(), on_device, None).load(path)
}

/// An optimizer whose state is rebuilt on one device, whatever the caller names.
struct OnDevice<O> {
    optimizer: O,
    /// Without gradients, as optimizers compute.
    device: Device,
}

impl<O: Optimizer> DynOptimizer for OnDevice<O> {
    fn step_dyn(
        &self,
        rank: usize,
        learning_rate: LearningRate,
        tensor: BridgeTensor,
        gradient: BridgeTensor,
        state: Option<DynState>,
    ) -> (BridgeTensor, Option<DynState>) {
        self.optimizer.step_dyn(rank, learning_rate, tensor, gradient, state)
    }

    fn to_device_dyn(&self, state: DynState, device: &Device) -> DynState {
        self.optimizer.to_device_dyn(state, device)
    }

    fn state_flatten(&self, prefix: &str, state: &DynState, out: &mut StateSink) {
        self.optimizer.state_flatten(prefix, state, out);
    }

    fn state_unflatten(&self, rank: usize, prefix: &str, source: &mut StateSource, _: &Device) -> Option<DynState> {
        self.optimizer.state_unflatten(rank, prefix, source, &self.device)
    }
}
