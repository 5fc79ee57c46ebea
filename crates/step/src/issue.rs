//! The operations of a step, in their order: for live steps, trials and rehearsals alike.

use burn::module::{Module, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{Device, FloatDType, Tensor};

use crate::gradients::{WeightedAccumulator, brought, probe_squares, scaled, squared_norm, widened};
use crate::recovery::OptimizerRecovery;
use crate::request::{StepPart, StepRequest};
use crate::running::RunningStates;
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

impl Loss {
    /// Returns it in 32 bits, in whichever format it was computed.
    #[must_use]
    pub fn in_32_bits(self) -> Self {
        let of_tasks = self.of_tasks.map(|it| it.cast(FloatDType::F32));
        Self { mean: self.mean.cast(FloatDType::F32), of_tasks }
    }
}

/// What the passes of a part have made.
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub(crate) enum Passed<T> {
    /// A loss, whose backward pass is still to come.
    Loss(Loss),
    /// The gradients of the part's mean loss, and what else there is.
    Gradients(GradientsParams, T),
}

impl<T> Passed<T> {
    /// Returns the part's weighted gradients, its loss where that is known, and what else there is.
    pub(crate) fn gradients<M: Module>(
        self,
        accumulator: &WeightedAccumulator<M>,
        model: &M,
        n_units: u64,
    ) -> (GradientsParams, Option<Loss>, Option<T>) {
        match self {
            Self::Loss(loss) => (accumulator.backward(model, &loss.mean, n_units), Some(loss), None),
            Self::Gradients(gradients, brought) => (accumulator.weigh(model, gradients, n_units), None, Some(brought)),
        }
    }
}

/// What is read of a part, if anything.
///
/// # Shapes
///
/// - output: `[n_values]`: the mean loss and those of the tasks, where a loss is known, and more with the part's gradients:
///   where a failed allocation is silent, it shows in the norm of what was made of it, and of what the forward pass changed.
pub(crate) fn read_of_part<M: Module>(
    loss: Option<Loss>,
    checked: Option<(&M, &GradientsParams, &Device)>,
) -> Option<Tensor<1>> {
    let mut read = Vec::new();
    if let Some(Loss { mean, of_tasks }) = loss {
        // They are read together with squares, which have 32 bits.
        read.push(widened(mean.inner()));
        read.extend(of_tasks.map(widened));
    }
    if let Some((model, gradients, device)) = checked {
        // A model on several devices may make them on another.
        read = read.into_iter().map(|it| brought(it, device)).collect();
        read.push(squared_norm(model, gradients, device));
        read.extend(RunningStates::squares(model, device));
    }
    if read.is_empty() { None } else { Some(Tensor::cat(read, 0)) }
}

/// What is read of a step before the optimizer may take it, what of its parts is not read yet included; takes the gradients
/// of probes out.
///
/// # Shapes
///
/// - `unread`: `[n_values]` each
/// - output: `[n_unread + 1 + n_probes]`, the squares of the norms of all gradients and of each probe's at the end
pub(crate) fn read_of_step<M: Module>(
    model: &M,
    gradients: &mut GradientsParams,
    probes: &[ParamId],
    (unread, device): (Vec<Tensor<1>>, &Device),
) -> Tensor<1> {
    let of_probes = probe_squares(gradients, probes, device);
    let norm = squared_norm(model, gradients, device);
    Tensor::cat(unread.into_iter().chain([norm]).chain(of_probes).collect(), 0)
}

/// Issues the operations of a step on a device whose failures are silent, in the order of
/// [`attempt`](crate::GuardedStep::attempt) and [`commit`](crate::GuardedStep::commit), and reads nothing.
///
/// `mean_loss` makes the loss of a micro-batch, of any values.
///
/// # Shapes
///
/// - output: the state, and what is read of it last, `[n_values]`
pub fn rehearse<M: Module>(
    mut state: TrainState<M>,
    device: &Device,
    request: &StepRequest,
    mean_loss: impl Fn(&M, &StepPart) -> Loss,
    recovery: OptimizerRecovery,
) -> (TrainState<M>, Tensor<1>) {
    let mut accumulator = request.accumulator();
    // What a step could go back to is in use meanwhile.
    let states = RunningStates::of(state.model());
    let mut unread = Vec::new();
    for part in &request.micro_batches {
        let model = state.model();
        let loss = mean_loss(model, part);
        let gradients = accumulator.backward(model, &loss.mean, request.n_units(part.samples.clone()));
        let read = read_of_part(Some(loss), Some((model, &gradients, device)));
        // The part is handed to the device here, and read where nothing was known of it.
        // What is fused depends on where: here and below it is where the step reads values, or memory.
        drop(device.flush());
        accumulator.add(model, gradients);
        drop(device.flush());
        unread.extend(read);
    }
    let mut gradients = accumulator.finish();
    let mut read = read_of_step(state.model(), &mut gradients, &request.task_probes, (unread, device));
    drop(device.flush());
    if request.rescales() {
        gradients = scaled(state.model(), gradients, 0.5);
        read = squared_norm(state.model(), &gradients, device);
        drop(device.flush());
    }
    let kept = recovery.kept(&state);
    state.update(0.0.into(), gradients);
    drop(device.flush());
    drop((kept, states));
    (state, read)
}
