//! What a job's steps would need on a device.

mod by_dry_run;
mod by_probes;
mod sounding;

use burn::tensor::{Device, Tensor};
use plimsoll_plan::{Fingerprint, MemoryPlan, PlanError, PlannedNeed};
use plimsoll_predict::{Phase, Platform, PredictorConfig};
use plimsoll_probe::DeviceKind;
use plimsoll_step::OptimizerRecovery;
use plimsoll_types::{Fraction, StepShape};

use crate::device::{has_autotune, has_fusion, open_device, platform};
use crate::find::OpenProbe;
use crate::job::Job;
use crate::loader::LoaderConfig;
use crate::trial::{TrialError, Trials};

pub use self::sounding::{sound, sound_forward, sound_one};

/// What is to be planned, and for which device.
#[derive(Clone, Debug)]
pub struct PlanRequest {
    /// The device.
    pub device: DeviceKind,
    /// Whether activations are recomputed in the backward pass.
    pub checkpointing: bool,
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

/// Told of what is being planned, and how many cells of how many are done.
pub type OnPlanned<'a> = &'a mut dyn FnMut(Phase, usize, usize);

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
    let device = open_device(request.device, request.checkpointing).map_err(|error| error.0)?;
    let fingerprint = fingerprint(job, request, &device_name(request.device)?);
    let platform = platform(request.device, &fingerprint.device);
    let planning = Planning { job, request, device, platform, open_probe };
    let mut plan = match request.device {
        DeviceKind::Flex => planning.by_probes(fingerprint, capacity, progress),
        DeviceKind::Vulkan(_) | DeviceKind::Cuda(_) => planning.by_dry_run(fingerprint, capacity, progress),
    }?;
    plan.ladder.clone_from(&request.ladder);
    plan.check()?;
    Ok(plan)
}

/// Plans steps that recompute activations, for a run under way on a device with pools: by dry run alone, since next to the
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
    first: Option<&MemoryPlan>,
    open_probe: OpenProbe<'_>,
) -> Result<Vec<PlannedNeed>, PlanError> {
    let page = open_probe()?.page()?;
    let request = PlanRequest {
        checkpointing: true,
        lattice: Vec::new(),
        is_corrected: false,
        schedule_steps: 0,
        ..request.clone()
    };
    let plan = plan_memory(job, &request, open_probe, &mut |_, _, _| ())?.corrected_as(first, page);
    plan.check()?;
    Ok(plan.needs())
}

/// Returns what decides the memory of a job's steps on a device.
///
/// `device_name` is the name of the probe, without a cap.
pub fn fingerprint<J: Job>(job: &J, request: &PlanRequest, device_name: &str) -> Fingerprint {
    Fingerprint {
        model: job.program(),
        optimizer: match request.optimizer_recovery {
            OptimizerRecovery::Restore => "Adam".to_owned(),
            OptimizerRecovery::Keep => "Adam, with a copy of the state from before".to_owned(),
        },
        dtype: "f32".to_owned(),
        checkpointing: request.checkpointing,
        effective_batch_size: request.loader.effective_batch_size,
        device: device_name.to_owned(),
        fusion: has_fusion(request.device),
        autotune: has_autotune(request.device),
        versions: Fingerprint::versions(),
    }
}

/// Returns the name of a device, whatever capacity it is made to have.
fn device_name(kind: DeviceKind) -> Result<String, PlanError> {
    Ok(plimsoll_probe::open(kind, None)?.name())
}

struct Planning<'a, J: Job> {
    job: &'a J,
    request: &'a PlanRequest,
    device: Device,
    platform: Platform,
    open_probe: OpenProbe<'a>,
}

impl<J: Job> Planning<'_, J> {
    fn shapes(&self, phase: Phase) -> Vec<StepShape> {
        let PlanRequest { ladder, lattice, inference, .. } = self.request;
        let mut shapes = match phase {
            Phase::Train => ladder.iter().chain(lattice).copied().collect(),
            Phase::Infer => inference.clone(),
        };
        shapes.sort_unstable_by_key(|it: &StepShape| (it.extent(), it.samples));
        shapes.dedup();
        shapes
    }

    fn n_samples(&self) -> u32 {
        self.request.loader.samples_of(self.request.loader.largest_edge)
    }

    fn trials(&self) -> Result<Trials<'_, J>, PlanError> {
        let largest = self.request.loader.largest();
        let trials = Trials::try_new(self.job, self.device.clone(), (self.open_probe)()?);
        let trials = trials.map_err(|error| failed(largest, error))?;
        let mut trials = trials.recovering(self.request.optimizer_recovery);
        trials.hold_buffers(&self.request.loader).map_err(|error| failed(largest, error.into()))?;
        Ok(trials)
    }
}

fn failed(shape: StepShape, error: TrialError) -> PlanError {
    PlanError::Step { shape, source: error.into() }
}
