//! A job's step, for the planner.

use burn::module::ParamId;
use burn::tensor::{Device, Tensor};
use plimsoll_plan::Blank;
use plimsoll_predict::{Keys, Phase};
use plimsoll_step::{Loss, TrainState};
use plimsoll_types::StepShape;

use crate::device::uploaded;
use crate::job::{Job, mean_loss};

/// The step of [`fit`](crate::fit()) without its data: what the planner rehearses, as a
/// [`BlankProgram`](plimsoll_plan::BlankProgram).
pub struct BlankJob<'a, J> {
    job: &'a J,
    device: Device,
    keys: Keys,
    task_weights: Vec<f32>,
}

impl<'a, J: Job> BlankJob<'a, J> {
    /// Takes the steps of a job on a device with gradients, computed as the keys of their shapes say.
    pub fn new(job: &'a J, device: Device, keys: Keys) -> Self {
        Self { job, device, keys, task_weights: vec![1.0; job.tasks().len()] }
    }
}

impl<J: Job> Blank for BlankJob<'_, J> {
    type Model = J::Model;

    fn device(&self) -> &Device {
        &self.device
    }

    fn start(&self) -> TrainState<J::Model> {
        TrainState::new(self.job.init(&self.device), self.job.optimizer().on(&self.device))
    }

    fn mean_loss(&self, model: &J::Model, shape: StepShape) -> Loss {
        let Self { job, device, keys, task_weights } = self;
        let batch = |device: &Device| uploaded(job.blank_batch(shape, device), device);
        mean_loss(*job, keys.key(Phase::Train, shape), (model, device), batch, task_weights)
    }

    fn max_norm(&self) -> Option<f64> {
        self.job.max_norm()
    }

    fn task_probes(&self, model: &J::Model) -> Vec<ParamId> {
        self.job.task_probes(model)
    }

    fn forward(&self, model: &J::Model, shape: StepShape) -> Tensor<1> {
        self.job.blank_forward(model, shape, &self.device.clone().inner())
    }
}
