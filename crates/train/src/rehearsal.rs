//! A job's step, for the planner.

use burn::module::Module;
use burn::optim::{AdamConfig, ModuleOptimizer};
use burn::tensor::{Device, Tensor};
use plimsoll_plan::Program;
use plimsoll_types::StepShape;

use crate::config::OptimizerRecovery;
use crate::gradients::{WeightedAccumulator, probe_squares, squared_norm};
use crate::job::{Job, Loss};

/// The step of [`fit`](crate::fit()) without its data: what the planner rehearses.
///
/// It issues the same operations in the same order as [`GuardedStep`](crate::GuardedStep) and the optimizer, and reads
/// nothing.
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
    type State = (J::Model, ModuleOptimizer);

    fn start(&self) -> Self::State {
        (self.job.init(&self.device), AdamConfig::new().init())
    }

    fn train(&self, (model, mut optimizer): Self::State, micro_batches: &[StepShape]) -> (Self::State, Tensor<1>) {
        let n_total = micro_batches.iter().map(|it| u64::from(it.samples)).sum();
        let task_weights = vec![1.0; self.job.tasks().len()];
        let mut accumulator = WeightedAccumulator::new(n_total);
        for shape in micro_batches {
            let batch = self.job.blank_batch(*shape, &self.device);
            let Loss { mean, of_tasks } = self.job.mean_loss(&model, batch, &task_weights);
            let gradients = accumulator.backward(&model, &mean, u64::from(shape.samples));
            let norm = squared_norm(&model, &gradients, &self.device);
            drop(Tensor::cat([mean.inner()].into_iter().chain(of_tasks).chain([norm]).collect(), 0));
            // A step reads here what this says, and waits for all that the part has written.
            drop(self.device.flush());
            accumulator.add(&model, gradients);
        }
        let mut gradients = accumulator.finish();
        let norms = probe_squares(&mut gradients, &self.job.task_probes(&model), &self.device);
        let norm = squared_norm(&model, &gradients, &self.device);
        let norm = Tensor::cat([norm].into_iter().chain(norms).collect(), 0);
        let kept = (self.recovery == OptimizerRecovery::Keep).then(|| (model.clone(), optimizer.clone()));
        let model = optimizer.step(0.0, model, gradients);
        drop(kept);
        ((model, optimizer), norm)
    }

    fn infer(&self, (model, _): &Self::State, shape: StepShape) -> Tensor<1> {
        self.job.blank_forward(&model.valid(), shape, &self.device.clone().inner())
    }
}
