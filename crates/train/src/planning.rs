//! What a job's steps would need on a device.

mod recompute;
mod sounding;

use burn::tensor::{Device, Tensor};
use plimsoll_plan::{
    BlankProgram, DryRunPlanner, Fingerprint, MemoryPlan, OnPlanned, OpenProbe, PlanError, PlannedNeed, Planning,
    RealSteps, Sweep, TrialError,
};
use plimsoll_predict::{Approach, Dtype, Keys, Phase, PredictorConfig};
use plimsoll_probe::DeviceKind;
use plimsoll_step::OptimizerRecovery;
use plimsoll_types::{Fraction, Recompute, StepShape};

use crate::device::{has_autotune, has_fusion, keys, open_device};
use crate::job::Job;
use crate::loader::LoaderConfig;
use crate::rehearsal::BlankJob;
use crate::source::Source;
use crate::trial::Trials;

pub use self::recompute::{MayRecompute, plan_recomputing};
pub use self::sounding::{Sounded, sound, sound_forward, sound_one};

/// What is to be planned, and for which device.
#[derive(Clone, Debug)]
pub struct PlanRequest {
    /// The device.
    pub device: DeviceKind,
    /// Whose activations are recomputed in the backward pass.
    pub recompute: Recompute,
    /// The number format that passes compute in.
    pub dtype: Dtype,
    /// Where the state from before an optimizer's step comes from: a copy takes memory.
    pub optimizer_recovery: OptimizerRecovery,
    /// The part of the capacity that a step may use.
    pub target: Fraction,
    /// Shapes of micro-batches that a run may train with, smallest first.
    pub ladder: Vec<StepShape>,
    /// More shapes of micro-batches, for people to look at.
    pub lattice: Vec<StepShape>,
    /// Shapes of forward passes without gradients.
    pub inference: Vec<StepShape>,
    /// The loader of the run: the samples of an optimizer step, and the host memory that is filled ahead of need.
    pub loader: LoaderConfig,
    /// Bounds, where certified probes plan; the features are those of the job.
    pub predictor: PredictorConfig,
    /// Most probes of each phase, where certified probes plan; the way up to the longest edge may take more, as
    /// [`ProbePlanner::max_trials`](plimsoll_plan::ProbePlanner::max_trials) says.
    pub max_probes: u32,
    /// Whether real steps of two cells of each phase correct the dry runs, where those plan.
    pub is_corrected: bool,
    /// Steps of mixed shapes that are planned as a whole.
    pub schedule_steps: u32,
}

impl PlanRequest {
    /// Returns how the passes of each shape compute, and on what; `device_name` is the name of the probe, without a cap.
    pub fn keys(&self, device_name: &str) -> Keys {
        keys(self.device, device_name, (self.recompute, self.dtype))
    }
}

/// A trained model that is put to use, as far as its memory goes.
pub trait BlankForward {
    /// Does what items of this shape do in a forward pass without gradients, without the items, and returns all that is
    /// read of it.
    ///
    /// # Shapes
    ///
    /// - output: `[n_values]`
    fn blank(&self, shape: StepShape) -> Tensor<1>;
}

/// Plans every shape of a request.
///
/// On a device with pools by dry runs, corrected by real steps of two cells of each phase; on others by certified probes.
///
/// # Errors
///
/// [`PlanError`]; see there.
pub fn plan_memory<J: Job>(
    job: &J,
    request: &PlanRequest,
    open_probe: OpenProbe<'_>,
    progress: OnPlanned<'_>,
) -> Result<MemoryPlan, PlanError> {
    let capacity = open_probe()?.capacity()?;
    let device = open_device(request.device).map_err(|error| error.0)?;
    let fingerprint = fingerprint(job, request, &device_name(request.device)?);
    let keys = request.keys(&fingerprint.device);
    let program = BlankProgram::new(BlankJob::new(job, device.clone(), keys), request.optimizer_recovery);
    let open_steps = || Ok(Box::new(trials(job, request, &device, open_probe)?) as Box<dyn RealSteps + '_>);
    let n_samples = request.loader.samples_of(request.loader.largest_extent);
    let planning = Planning {
        device: request.device,
        keys,
        fingerprint,
        capacity,
        target: request.target,
        ladder: request.ladder.clone(),
        lattice: request.lattice.clone(),
        inference: request.inference.clone(),
        n_samples: &|_| n_samples,
        predictor: PredictorConfig { features: job.features(), ..request.predictor },
        shortest: Approach::SHORTEST,
        multiple: 1,
        max_probes: request.max_probes,
        is_corrected: request.is_corrected,
        schedule_steps: request.schedule_steps,
    };
    let plan = planning.run(&program, (open_probe, &open_steps), progress)?;
    plan.check()?;
    Ok(plan)
}

/// Plans steps that recompute the activations of these samples, for a run under way on a device with pools: by dry run alone, since next to the
/// run's own model there is no room for real steps of another one.
///
/// `first` is the plan that the run began with, whose real steps correct this one; the pages of the run are as large as its
/// steps have made them, and each bound leaves room for one of those.
/// The run must not use the device meanwhile, nor have work queued for it.
///
/// # Errors
///
/// As [`plan_memory`].
pub fn plan_sparing<J: Job>(
    job: &J,
    request: &PlanRequest,
    (recompute, first): (Recompute, Option<&MemoryPlan>),
    open_probe: OpenProbe<'_>,
) -> Result<Vec<PlannedNeed>, PlanError> {
    let page = open_probe()?.read()?.page;
    let request =
        PlanRequest { recompute, lattice: Vec::new(), is_corrected: false, schedule_steps: 0, ..request.clone() };
    let plan = plan_memory(job, &request, open_probe, &mut |_, _, _| ())?.corrected_as(first, page);
    plan.check()?;
    Ok(plan.needs())
}

/// Has the device choose the kernels of every shape that a run may use, on streams apart from the run's, where it chooses by
/// timing: for a run that makes no plan of its own, whose pages would be as large as what is measured with otherwise.
/// Returns how many rehearsals met kernels that were not tuned: none where the plan was made on this machine, and what it chose
/// is still known.
///
/// # Errors
///
/// [`PlanError`]; see there.
pub fn tune_ahead<J: Job>(job: &J, request: &PlanRequest) -> Result<u64, PlanError> {
    if !has_autotune(request.device) {
        return Ok(0);
    }
    let planner = DryRunPlanner::try_open(request.device)?;
    let device = open_device(request.device).map_err(|error| error.0)?;
    let keys = request.keys(&device_name(request.device)?);
    let program = BlankProgram::new(BlankJob::new(job, device, keys), request.optimizer_recovery);
    let n_samples = request.loader.samples_of(request.loader.largest_extent);
    for (phase, shapes) in [(Phase::Train, &request.ladder), (Phase::Infer, &request.inference)] {
        if !shapes.is_empty() {
            Sweep::try_new(&planner, &program, phase)?.cells(shapes, &|_| n_samples, &mut |_, _| ())?;
        }
    }
    Ok(planner.n_made_again())
}

/// Returns what decides the memory of a job's steps on a device.
///
/// `device_name` is the name of the probe, without a cap.
pub fn fingerprint<J: Job>(job: &J, request: &PlanRequest, device_name: &str) -> Fingerprint {
    Fingerprint {
        model: job.program(),
        optimizer: optimizer(job, request.optimizer_recovery),
        dtype: request.dtype.to_string(),
        recompute: request.recompute,
        effective_batch_size: request.loader.effective_batch_size,
        device: device_name.to_owned(),
        fusion: has_fusion(request.device),
        autotune: has_autotune(request.device),
        versions: Fingerprint::versions(),
    }
}

/// Names what the optimizer's step takes memory for.
fn optimizer<J: Job>(job: &J, recovery: OptimizerRecovery) -> String {
    let copy = if recovery == OptimizerRecovery::Keep { ", with a copy of the state from before" } else { "" };
    let scaled = if job.max_norm().is_some() { ", of a gradient of bounded norm" } else { "" };
    format!("{}{scaled}{copy}", job.optimizer().name())
}

/// Returns the name of a device, whatever capacity it is made to have.
fn device_name(kind: DeviceKind) -> Result<String, PlanError> {
    Ok(plimsoll_probe::open(kind, None)?.name())
}

/// Begins real steps beside the buffers of a run's loader.
fn trials<'a, J: Job>(
    job: &'a J,
    request: &PlanRequest,
    device: &Device,
    open_probe: OpenProbe<'_>,
) -> Result<Trials<'a, J>, PlanError> {
    let shape = request.loader.largest(&job.source().lengths());
    let failed = |error: TrialError| PlanError::Step { shape, source: error.into() };
    let keys = request.keys(&device_name(request.device)?);
    let mut trials = Trials::try_new(job, device.clone(), keys, open_probe()?)
        .map_err(failed)?
        .recovering(request.optimizer_recovery);
    trials.hold_buffers(&request.loader).map_err(|error| failed(error.into()))?;
    Ok(trials)
}
