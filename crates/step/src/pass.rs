//! How a pass computes.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Bool, Device, FloatDType, GradientCheckpointingStrategy, Int, Tensor};
use plimsoll_predict::{Dtype, Key};

use crate::running::RunningStates;

/// Runs a pass with a model, and with a device for its batch, as the key of its shape says: in which number format it
/// computes, and whether its backward pass computes the results of cheap operations again instead of keeping them.
///
/// The weights stay what they are, with gradients in their own format: the model that the pass gets has a copy of each in the
/// format of the pass. To bring a batch into that format is left to the pass, and the loss that it returns is best computed in
/// 32 bits.
///
/// Whether results are computed again stands in each tensor, and tensors of both kinds do not mix: what the pass makes is to
/// be made on the device that it gets.
/// Weights that no pass has used yet are drawn here, in the order in which the model is traversed.
///
/// # Sources
///
/// `GradientCheckpointingStrategy::Balanced` of Burn 0.22.1; weights in 32 bits beside passes in 16: Micikevicius et al.,
/// "Mixed Precision Training", ICLR 2018.
pub fn pass_as<M: Module, T>(key: Key, model: &M, device: &Device, pass: impl FnOnce(&M, &Device) -> T) -> T {
    if !key.checkpointing && key.platform.dtype == Dtype::F32 {
        return pass(model, device);
    }
    let of_pass = if key.checkpointing { device.clone().gradient_checkpointing() } else { device.clone() };
    // Copies share what a pass changes, and it is as the last pass has left it.
    let changes = !RunningStates::of(model).is_empty();
    let passed = pass(&model.clone().map(&mut Form::new(&of_pass, key.platform.dtype)), &of_pass);
    if changes {
        RunningStates::settle(model);
        drop(model.clone().map(&mut Form::new(device, Dtype::F32)));
    }
    passed
}

/// Gives each tensor of a model its strategy of gradients, and its number format.
struct Form {
    strategy: GradientCheckpointingStrategy,
    dtype: FloatDType,
}

impl Form {
    fn new(device: &Device, dtype: Dtype) -> Self {
        let dtype = match dtype {
            Dtype::F32 => FloatDType::F32,
            Dtype::F16 => FloatDType::F16,
            Dtype::Bf16 => FloatDType::BF16,
            Dtype::F64 => FloatDType::F64,
        };
        Self { strategy: device.gradient_checkpointing_strategy().unwrap_or_default(), dtype }
    }
}

impl ModuleMapper for Form {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|it| it.with_gradient_checkpointing_strategy(self.strategy).cast(self.dtype))
    }

    fn map_int<const D: usize>(&mut self, param: Param<Tensor<D, Int>>) -> Param<Tensor<D, Int>> {
        param.map(|it| it.with_gradient_checkpointing_strategy(self.strategy))
    }

    fn map_bool<const D: usize>(&mut self, param: Param<Tensor<D, Bool>>) -> Param<Tensor<D, Bool>> {
        param.map(|it| it.with_gradient_checkpointing_strategy(self.strategy))
    }
}
