//! A job's step, for the planner.

use burn::module::Module;
use burn::optim::AdamConfig;
use burn::tensor::{Device, Tensor};
use plimsoll_plan::Program;
use plimsoll_step::{OptimizerRecovery, StepPart, StepRequest, TrainState, rehearse};
use plimsoll_types::{Budget, StepShape};

use crate::job::Job;

/// The step of [`fit`](crate::fit()) without its data: what the planner rehearses.
///
/// It issues the same operations in the same order, by [`rehearse`], and reads nothing.
pub struct JobProgram<'a, J> {
    job: &'a J,
    device: Device,
    recovery: OptimizerRecovery,
}

impl<'a, J: Job> JobProgram<'a, J> {
    /// Rehearses on a device with gradients.
    pub fn new(job: &'a J, device: Device, recovery: OptimizerRecovery) -> Self {
        Self { job, device, recovery }
    }
}

impl<J: Job> Program for JobProgram<'_, J> {
    type State = TrainState<J::Model>;

    fn start(&self) -> Self::State {
        TrainState::new(self.job.init(&self.device), AdamConfig::new().init())
    }

    fn train(&self, state: Self::State, micro_batches: &[StepShape]) -> (Self::State, Tensor<1>) {
        let task_probes = self.job.task_probes(state.model());
        let request = StepRequest::of_shapes(micro_batches, task_probes, Budget::UNBOUNDED);
        let task_weights = vec![1.0; self.job.tasks().len()];
        let mean_loss = |model: &J::Model, part: &StepPart| {
            self.job.mean_loss(model, self.job.blank_batch(part.shape(), &self.device), &task_weights)
        };
        rehearse(state, &self.device, &request, mean_loss, self.recovery)
    }

    fn infer(&self, state: &Self::State, shape: StepShape) -> Tensor<1> {
        self.job.blank_forward(&state.model().valid(), shape, &self.device.clone().inner())
    }
}
