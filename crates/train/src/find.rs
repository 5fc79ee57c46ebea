//! The batch size that suits a device, for one's own job.

use plimsoll_finder::{FinderConfig, Found};
use plimsoll_plan::{
    BlankProgram, FindError, Finding, FoundBatch, Objective, OnTried, OpenProbe, PlanError, PlannedNeed, TrialError,
};
use plimsoll_predict::{Dtype, Keys, Phase, PredictorConfig};
use plimsoll_probe::{DeviceKind, Probe};
use plimsoll_step::OptimizerRecovery;
use plimsoll_types::{Bytes, Features, Recompute, StepShape};

use crate::device::{beside_tensors, has_exact_peaks, keys, open_device, platform, small_batch_regime, survives};
use crate::job::Job;
use crate::loader::LoaderConfig;
use crate::planning::BlankForward;
use crate::rehearsal::BlankJob;
use crate::source::Source as _;
use crate::trial::Trials;

/// What is searched for, and where.
#[derive(Clone, Debug)]
pub struct FindRequest {
    /// The device.
    pub device: DeviceKind,
    /// Whether activations are recomputed in the backward pass.
    pub recompute: Recompute,
    /// The number format that passes compute in.
    pub dtype: Dtype,
    /// Where the state from before an optimizer's step comes from: a copy takes memory.
    pub optimizer_recovery: OptimizerRecovery,
    /// The edge, the limits of the batch, and the part of the capacity that may be used; what depends on the device is
    /// filled in.
    pub finder: FinderConfig,
    /// Training steps, or forward passes without gradients.
    pub phase: Phase,
    /// The loader of a run that is to use the answer: training steps have as many samples as its own, and run beside its
    /// buffers. `None` for one micro-batch a step, whatever its size.
    pub loader: Option<LoaderConfig>,
    /// What makes a batch the best.
    pub objective: Objective,
    /// What a sounding has read of a small batch: only what fits by it runs first.
    pub sounded: Option<PlannedNeed>,
}

/// Finds the batch size of a job on a device, as [`Finding::run`] does.
///
/// # Errors
///
/// [`FindError::Finder`] when the smallest batch does not fit, with what it needs and what there is.
pub fn find_batch_size<J: Job>(
    job: &J,
    request: &FindRequest,
    open_probe: OpenProbe<'_>,
    on_tried: OnTried<'_>,
) -> Result<FoundBatch, FindError> {
    let probe = open_probe()?;
    let capacity = probe.capacity().map_err(PlanError::from)?;
    let keys = keys(request.device, &probe.name(), (request.recompute, request.dtype));
    drop(probe);
    let source = job.source();
    let held = request.loader().map_or(Ok(Bytes::ZERO), |it| it.held(&*source)).map_err(TrialError::from)?;
    let device = open_device(request.device).map_err(|it| PlanError::from(it.0))?;
    let mut trials = Trials::try_new(job, device.clone(), keys, open_probe()?)?.recovering(request.optimizer_recovery);
    if let (DeviceKind::Flex, Some(loader)) = (request.device, request.loader()) {
        trials.hold_buffers(loader).map_err(TrialError::from)?;
    }
    let finding = Finding {
        device: request.device,
        capacity,
        keys,
        predictor: PredictorConfig {
            features: job.features(),
            beside: beside_tensors(request.device),
            ..PredictorConfig::default()
        },
        exact_peaks: has_exact_peaks(request.device),
        finder: request.finder(capacity, held),
        phase: request.phase,
        n_samples: &|shape| request.n_samples(shape),
        host: &|shape| match (request.phase, request.loader()) {
            (Phase::Train, None) => source.buffer_bytes(shape),
            // Those of a loader are in use before each step, whatever its micro-batches.
            (Phase::Train, Some(_)) | (Phase::Infer, _) => Bytes::ZERO,
        },
        objective: request.objective,
    };
    let program = BlankProgram::new(BlankJob::new(job, device, keys), request.optimizer_recovery);
    finding.run(&program, &mut trials, on_tried)
}

/// Finds the largest batch of work without gradients that fits, such as generation, as [`Finding::run_forward`] does, by the
/// complete features over the axes of its samples.
///
/// # Errors
///
/// [`FindError::Finder`] when the smallest batch does not fit, with what it needs and what there is.
pub fn find_inference_batch(
    device: DeviceKind,
    mut finder: FinderConfig,
    probe: &mut dyn Probe,
    model: &dyn BlankForward,
    on_tried: OnTried<'_>,
) -> Result<Found, FindError> {
    let capacity = probe.capacity().map_err(PlanError::from)?;
    finder.survives = survives(device, capacity);
    let features = Features::complete(finder.extent.n_axes());
    let finding = Finding {
        device,
        capacity,
        keys: Keys { recompute: Recompute::NEVER, platform: platform(device, &probe.name()), small_batch: 0 },
        predictor: PredictorConfig { features, beside: beside_tensors(device), ..PredictorConfig::default() },
        exact_peaks: has_exact_peaks(device),
        finder,
        phase: Phase::Infer,
        n_samples: &|shape| shape.samples,
        host: &|_| Bytes::ZERO,
        objective: Objective::Largest,
    };
    finding.run_forward(probe, &|shape| model.blank(shape), on_tried)
}

impl FindRequest {
    /// Adds what the device decides, where so much is held beside.
    fn finder(&self, capacity: Bytes, held: Bytes) -> FinderConfig {
        // Without a gradient of weights there is one path only.
        let small_batch = if self.phase == Phase::Train { small_batch_regime(self.device) } else { 0 };
        let first = self.finder.batch_min.max(small_batch.saturating_add(1));
        let survives = survives(self.device, capacity) && self.needed(first).saturating_add(held) <= capacity;
        FinderConfig { small_batch, survives, ..self.finder.clone() }
    }

    /// Returns the loader, where it has a part in the steps.
    fn loader(&self) -> Option<&LoaderConfig> {
        self.loader.as_ref().filter(|_| self.phase == Phase::Train)
    }

    /// Returns how many samples a step in micro-batches of this shape has.
    fn n_samples(&self, shape: StepShape) -> u32 {
        self.loader().map_or(shape.samples, |it| it.samples_of(shape.extent()))
    }

    /// Returns what so many samples need by what was read of fewer, or nothing where nothing was.
    fn needed(&self, samples: u32) -> Bytes {
        let Some(PlannedNeed { shape, expected, resident, .. }) = self.sounded else { return Bytes::ZERO };
        let resident = resident.unwrap_or_default();
        let times = samples.div_ceil(shape.samples.max(1));
        resident.saturating_add(expected.saturating_sub(resident).saturating_mul(times.into()))
    }
}
