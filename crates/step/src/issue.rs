//! The operations of a step, in their order: for live steps, trials and rehearsals alike.

use burn::module::{Module, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};

use crate::commit::OptimizerRecovery;
use crate::gradients::{WeightedAccumulator, probe_squares, squared_norm};
use crate::request::{StepPart, StepRequest};
use crate::state::TrainState;

/// The loss of a batch.
pub struct Loss {
    /// The weighted mean over the batch, with its graph, of shape `[1]`.
    pub mean: Tensor<1>,
    /// For each task, what the batch adds to the task's mean loss over the whole step: without weights or graph, divided
    /// by the batch's share of the step, of shape `[n_tasks]`.
    pub of_tasks: Option<Tensor<1>>,
}

impl From<Tensor<1>> for Loss {
    fn from(mean: Tensor<1>) -> Self {
        Self { mean, of_tasks: None }
    }
}

/// What is read of a part.
///
/// # Shapes
///
/// - output: `[1 + n_tasks]`, the mean loss and those of the tasks, and one more with the part's gradients: where a failed
///   allocation is silent, it shows in the norm of what was made of it.
pub(crate) fn read_of_part<M: Module>(loss: Loss, checked: Option<(&M, &GradientsParams, &Device)>) -> Tensor<1> {
    let mut read = vec![loss.mean.inner()];
    read.extend(loss.of_tasks);
    read.extend(checked.map(|(model, gradients, device)| squared_norm(model, gradients, device)));
    Tensor::cat(read, 0)
}

/// What is read of a step before the optimizer may take it; takes the gradients of probes out.
///
/// # Shapes
///
/// - output: `[1 + n_probes]`, the squares of the norms of all gradients and of each probe's
pub(crate) fn read_of_step<M: Module>(
    model: &M,
    gradients: &mut GradientsParams,
    probes: &[ParamId],
    device: &Device,
) -> Tensor<1> {
    let of_probes = probe_squares(gradients, probes, device);
    let norm = squared_norm(model, gradients, device);
    Tensor::cat([norm].into_iter().chain(of_probes).collect(), 0)
}

/// Issues the operations of a step on a device whose failures are silent, in the order of
/// [`attempt`](crate::GuardedStep::attempt) and [`commit`](crate::GuardedStep::commit), and reads nothing.
///
/// `mean_loss` makes the loss of a micro-batch, of any values.
///
/// # Shapes
///
/// - output: the state, and what is read of it last, `[1 + n_probes]`
pub fn rehearse<M: Module>(
    mut state: TrainState<M>,
    device: &Device,
    request: &StepRequest,
    mean_loss: impl Fn(&M, &StepPart) -> Loss,
    recovery: OptimizerRecovery,
) -> (TrainState<M>, Tensor<1>) {
    let mut accumulator = WeightedAccumulator::new(request.n_units(0..request.units.len()));
    for part in &request.micro_batches {
        let model = state.model();
        let loss = mean_loss(model, part);
        let gradients = accumulator.backward(model, &loss.mean, request.n_units(part.samples.clone()));
        drop(read_of_part(loss, Some((model, &gradients, device))));
        // A step reads here what this says, and waits for all that the part has written.
        drop(device.flush());
        accumulator.add(model, gradients);
    }
    let mut gradients = accumulator.finish();
    let read = read_of_step(state.model(), &mut gradients, &request.task_probes, device);
    let kept = recovery.kept(&state);
    state.update(0.0, gradients);
    drop(kept);
    (state, read)
}
