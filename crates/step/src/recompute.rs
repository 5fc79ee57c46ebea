//! Passes whose activations are recomputed.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Bool, Device, GradientCheckpointingStrategy, Int, Tensor};

use crate::running::RunningStates;

/// Runs a pass with a model, and with a device for its batch: where `is_on` says so, the backward pass computes the results of
/// cheap operations again instead of keeping them.
///
/// Whether it does stands in each tensor, and tensors of both kinds do not mix: the model that the pass gets has the same
/// weights, with the same gradients, under the other sign. What else the pass makes is to be made on the device that it gets.
/// Weights that no pass has used yet are drawn here, in the order in which the model is traversed.
///
/// # Sources
///
/// `GradientCheckpointingStrategy::Balanced` of Burn 0.22.1.
pub fn recomputing<M: Module, T>(is_on: bool, model: &M, device: &Device, pass: impl FnOnce(&M, &Device) -> T) -> T {
    if !is_on {
        return pass(model, device);
    }
    let [usual, sparing] = [device.clone(), device.clone().gradient_checkpointing()];
    // Copies share what a pass changes, and it bears the sign of the last pass.
    let changes = !RunningStates::of(model).is_empty();
    let passed = pass(&model.clone().map(&mut Sign::of(&sparing)), &sparing);
    if changes {
        RunningStates::settle(model);
        drop(model.clone().map(&mut Sign::of(&usual)));
    }
    passed
}

/// Puts the sign of a device into each tensor of a model.
struct Sign(GradientCheckpointingStrategy);

impl Sign {
    fn of(device: &Device) -> Self {
        Self(device.gradient_checkpointing_strategy().unwrap_or_default())
    }
}

impl ModuleMapper for Sign {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|it| it.with_gradient_checkpointing_strategy(self.0))
    }

    fn map_int<const D: usize>(&mut self, param: Param<Tensor<D, Int>>) -> Param<Tensor<D, Int>> {
        param.map(|it| it.with_gradient_checkpointing_strategy(self.0))
    }

    fn map_bool<const D: usize>(&mut self, param: Param<Tensor<D, Bool>>) -> Param<Tensor<D, Bool>> {
        param.map(|it| it.with_gradient_checkpointing_strategy(self.0))
    }
}
