//! A job's step, for the planner.

use burn::module::Module;
use burn::optim::{AdamConfig, ModuleOptimizer};
use burn::tensor::{Device, Tensor};
use plimsoll_plan::Program;
use plimsoll_types::StepShape;

use crate::gradients::{WeightedAccumulator, squared_norm};
use crate::job::Job;

/// The step of [`fit`](crate::fit()) without its data: what the planner rehearses.
///
/// It issues the same operations in the same order as [`GuardedStep`](crate::GuardedStep) and the optimizer, and reads
/// nothing.
pub struct JobProgram<'a, J> {
    job: &'a J,
    device: Device,
}

impl<'a, J: Job> JobProgram<'a, J> {
    /// Rehearses on a device with gradients.
    pub fn new(job: &'a J, device: Device) -> Self {
        Self { job, device }
    }
}

impl<J: Job> Program for JobProgram<'_, J> {
    type State = (J::Model, ModuleOptimizer);

    fn start(&self) -> Self::State {
        (self.job.init(&self.device), AdamConfig::new().init())
    }

    fn train(&self, (model, mut optimizer): Self::State, micro_batches: &[StepShape]) -> (Self::State, Tensor<1>) {
        let n_total = micro_batches.iter().map(|it| it.samples as usize).sum();
        let mut accumulator = WeightedAccumulator::new(n_total);
        for shape in micro_batches {
            let loss = self.job.mean_loss(&model, self.job.blank_batch(*shape, &self.device));
            let gradients = accumulator.backward(&model, &loss, shape.samples as usize);
            let norm = squared_norm(&model, &gradients, &self.device);
            drop(Tensor::cat(vec![loss.inner(), norm], 0));
            accumulator.add(&model, gradients);
        }
        let gradients = accumulator.finish();
        let norm = squared_norm(&model, &gradients, &self.device);
        let model = optimizer.step(0.0, model, gradients);
        ((model, optimizer), norm)
    }

    fn infer(&self, (model, _): &Self::State, shape: StepShape) -> Tensor<1> {
        self.job.blank_forward(&model.valid(), shape, &self.device.clone().inner())
    }
}
