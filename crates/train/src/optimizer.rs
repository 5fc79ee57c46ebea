//! The optimizer of a job.

mod adam;

use burn::grad_clipping::GradientClipping;
use burn::module::ParamGroup;
use burn::optim::{DynOptimizer, DynState, LearningRate, ModuleOptimizer, Optimizer, StateSink, StateSource};
use burn::tensor::Device;
use burn::tensor::kind::BridgeTensor;

pub use self::adam::Adam;
use crate::names::name_of_type;

/// The optimizer of a job: one for all parameters, such as `AdamWConfig::new().build().into()`, and others for groups of them.
pub struct JobOptimizer {
    name: String,
    groups: Vec<AddGroup>,
}

/// Adds a group to those before it, on a device.
type AddGroup = Box<dyn Fn(Option<ModuleOptimizer>, &Device) -> ModuleOptimizer>;

impl<O: Optimizer> From<O> for JobOptimizer {
    fn from(optimizer: O) -> Self {
        Self::new(optimizer, None)
    }
}

impl JobOptimizer {
    /// Optimizes all parameters alike; gradients are clipped by value, or by the norm of each tensor, where that is wanted.
    pub fn new<O: Optimizer>(optimizer: O, clipping: Option<GradientClipping>) -> Self {
        Self { name: String::new(), groups: Vec::new() }.with_group(ParamGroup::all(), optimizer, clipping)
    }

    /// Optimizes a group of parameters in another way.
    #[must_use]
    pub fn with_group<O: Optimizer>(
        mut self,
        group: ParamGroup,
        optimizer: O,
        clipping: Option<GradientClipping>,
    ) -> Self {
        let between = if self.groups.is_empty() { "" } else { ", " };
        let clipped = if clipping.is_some() { " with clipping" } else { "" };
        self.name.extend([between, name_of_type::<O>(), clipped]);
        self.groups.push(Box::new(move |others, device| {
            let on_device = OnDevice { optimizer: optimizer.clone(), device: device.clone().inner() };
            let others = others.unwrap_or_else(|| ModuleOptimizer::from(optimizer.clone()));
            others.with_group(group.clone(), on_device, clipping.clone())
        }));
        self
    }

    /// Names the optimizers of all groups: their state fits no others.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes the optimizer, whose state is read onto this device when it is loaded.
    ///
    /// [`ModuleOptimizer::load`] of Burn 0.22 reads it onto the default device: in a build for several that is CUDA, then
    /// Vulkan, whatever the model is on, and the state moves at its first step only.
    pub fn on(&self, device: &Device) -> ModuleOptimizer {
        let made = self.groups.iter().fold(None, |others, add| Some(add(others, device)));
        made.unwrap_or_else(|| unreachable!("there is one for all parameters"))
    }
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

#[cfg(test)]
mod tests {
    use burn::optim::momentum::MomentumConfig;
    use burn::optim::{AdamConfig, SgdConfig};

    use super::*;

    #[test]
    fn an_optimizer_is_called_by_those_of_all_its_groups() {
        assert_eq!(JobOptimizer::from(Adam::default()).name(), "Adam");
        assert_eq!(JobOptimizer::from(AdamConfig::new().build()).name(), "Adam");
        let sgd = SgdConfig::new().with_momentum(Some(MomentumConfig::new())).build();
        let both = JobOptimizer::new(AdamConfig::new().build(), Some(GradientClipping::Norm(1.0)));
        let both = both.with_group(ParamGroup::all(), sgd, None);
        assert_eq!(both.name(), "Adam with clipping, Sgd");
    }
}
