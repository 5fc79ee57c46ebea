//! The batch size that suits a device, for one's own job.

mod by_plan;
mod by_probes;

use std::time::Instant;

use plimsoll_finder::{Finder, FinderConfig, FinderError, Found, Outcome, Race, Winner};
use plimsoll_plan::{PlanError, PlannedNeed};
use plimsoll_predict::{KEPT_SHARE, Phase, PredictError, Predictor, PredictorConfig};
use plimsoll_probe::{DeviceKind, Probe};
use plimsoll_step::OptimizerRecovery;
use plimsoll_types::{Attempt, Bytes, Features, StepShape};

use self::by_probes::by_probes;
use crate::controller::Keys;
use crate::device::{beside_tensors, has_exact_peaks, open_device, platform, small_batch_regime, survives};
use crate::job::Job;
use crate::loader::LoaderConfig;
use crate::planning::BlankForward;
use crate::rehearsal::JobProgram;
use crate::trial::{Trial, TrialError, Trials, forward_trial};

/// What is searched for, and where.
#[derive(Clone, Debug)]
pub struct FindRequest {
    /// The device.
    pub device: DeviceKind,
    /// Whether activations are recomputed in the backward pass.
    pub checkpointing: bool,
    /// Where the state from before an optimizer's step comes from: a copy takes memory.
    pub optimizer_recovery: OptimizerRecovery,
    /// The edge, the limits of the batch, and the part of the capacity that may be used; what depends on the device is
    /// filled in.
    pub finder: FinderConfig,
    /// Training steps, or forward passes without gradients.
    pub phase: Phase,
    /// Samples of an optimizer step; `None` for one micro-batch a step, whatever its size.
    pub effective_batch_size: Option<u32>,
    /// The loader of a run that is to use the answer: training steps run beside its buffers.
    pub loader: Option<LoaderConfig>,
    /// What makes a batch the best.
    pub objective: Objective,
    /// What a sounding has read of a small batch: only what fits by it runs first.
    pub sounded: Option<PlannedNeed>,
}

/// What makes a batch the best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// The largest that fits.
    #[default]
    Largest,
    /// The one with the most samples per second, of at most 6 that fit, each timed in at most 5 steps.
    Throughput,
}

/// A real step of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried {
    /// Its shape.
    pub shape: StepShape,
    /// What it showed.
    pub outcome: Outcome,
    /// The nodes of its graph, or zero where that is small.
    pub nodes: u64,
    /// Wall time in seconds.
    pub seconds: f64,
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundBatch {
    /// The search, with its figures.
    pub found: Found,
    /// The fastest batch, where that was asked for.
    pub winner: Option<Winner>,
    /// Dry runs made.
    pub n_plans: usize,
    /// Real steps that were made once more, because the first of them made what stays for good.
    pub n_repeated: u32,
    /// What was timed, where the fastest was asked for.
    pub timed: Timed,
}

/// Steps that were timed, after the search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timed {
    /// How many there were.
    pub n_steps: u32,
    /// How many of them ran out of memory.
    pub n_out_of_memory: u32,
    /// Their high-water mark.
    pub peak: Bytes,
}

impl FoundBatch {
    /// Returns the batch to use.
    pub fn batch(&self) -> u32 {
        self.winner.map_or(self.found.batch, |it| it.batch)
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// The search.
    #[error(transparent)]
    Finder(#[from] FinderError),
    /// The plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A real step.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// A reading makes no sense.
    #[error(transparent)]
    Predict(#[from] PredictError),
}

/// Opens a probe of the device, capped where a capacity is set.
pub type OpenProbe<'a> = &'a dyn Fn() -> Result<Box<dyn Probe>, PlanError>;

/// Told of each real step.
pub type OnTried<'a> = &'a mut dyn FnMut(&Tried);

/// Finds the batch size of a job on a device.
///
/// On a device with pools a dry run says what any batch reserves, and 3 real steps confirm it, or up to
/// [`FinderConfig::max_trials`] where one of them fails; on others as many real steps, which are bounded by those before
/// them but for the first. `on_tried` is told of each.
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
    let keys = Keys {
        checkpointing: request.checkpointing,
        platform: platform(request.device, &probe.name()),
        small_batch: small_batch_regime(request.device),
    };
    let loader = request.loader.as_ref().filter(|_| request.phase == Phase::Train);
    let held = loader.map_or(Ok(Bytes::ZERO), |it| it.held(&*job.source())).map_err(TrialError::from)?;
    let finder = Finder::try_new(request.finder(capacity, held), capacity)?;
    let device = open_device(request.device, request.checkpointing).map_err(|it| PlanError::from(it.0))?;
    drop(probe);
    let trials = Trials::try_new(job, device.clone(), open_probe()?)?.recovering(request.optimizer_recovery);
    let mut search = BatchSearch {
        request,
        features: job.features(),
        finder,
        trials,
        on_tried,
        n_repeated: 0,
        timed: Timed::default(),
    };
    let (found, n_plans) = match request.device {
        DeviceKind::Flex => (search.by_probes(keys)?, 0),
        DeviceKind::Vulkan(_) | DeviceKind::Cuda(_) => {
            search.by_plan(&JobProgram::new(job, device, request.optimizer_recovery))?
        }
    };
    let winner = match request.objective {
        Objective::Largest => None,
        Objective::Throughput => search.race(found.batch)?,
    };
    Ok(FoundBatch { found, winner, n_plans, n_repeated: search.n_repeated, timed: search.timed })
}

/// Finds the largest batch of work without gradients that fits, such as generation, by real runs of it.
///
/// Each run is bounded by those before it, but for the first.
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
    let keys = Keys { checkpointing: false, platform: platform(device, &probe.name()), small_batch: 0 };
    let edge = finder.edge;
    let mut finder = Finder::try_new(finder, capacity)?;
    let bounds = Predictor::try_new(PredictorConfig { beside: beside_tensors(device), ..PredictorConfig::default() })?;
    let (exact_peaks, key) = (has_exact_peaks(device), |shape| keys.key(Phase::Infer, shape));
    by_probes(&mut finder, bounds, exact_peaks, edge, key, |_| Bytes::ZERO, &mut |shape| {
        tried(shape, on_tried, || forward_trial(probe, capacity, shape, || model.blank(shape)))
    })
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

    /// Returns what so many samples need by what was read of fewer, or nothing where nothing was.
    fn needed(&self, samples: u32) -> Bytes {
        let Some(PlannedNeed { shape, expected, resident, .. }) = self.sounded else { return Bytes::ZERO };
        let resident = resident.unwrap_or_default();
        let times = samples.div_ceil(shape.samples.max(1));
        resident.saturating_add(expected.saturating_sub(resident).saturating_mul(times.into()))
    }
}

/// Whether a step left so little behind that the next one of its shape reads the same.
fn is_settled(it: &Trial) -> bool {
    let kept = it.in_use.saturating_sub(it.resident);
    kept.saturating_mul(KEPT_SHARE) <= it.peak.saturating_sub(it.resident)
}

/// Runs a step, and tells what it showed.
///
/// A step above the capacity that was measured as a whole shows as much as one that fits. So does not one that was found
/// not to fit in parts, or that was refused memory.
fn tried(
    shape: StepShape,
    on_tried: OnTried<'_>,
    step: impl FnOnce() -> Result<Trial, TrialError>,
) -> Result<Tried, TrialError> {
    let start = Instant::now();
    let (outcome, nodes) = match step().map(Trial::steady) {
        Ok(Trial { resident, peak, part, .. }) => (Outcome::Measured { resident, peak }, part.nodes),
        Err(TrialError::OutOfMemory(Attempt { shape: whole, resident, peak: Some(peak), nodes, .. }))
            if whole == shape && Bytes::ZERO < resident && resident < peak =>
        {
            (Outcome::Measured { resident, peak }, nodes)
        }
        Err(TrialError::OutOfMemory(_)) => (Outcome::OutOfMemory, 0),
        Err(error) => return Err(error),
    };
    let tried = Tried { shape, outcome, nodes, seconds: start.elapsed().as_secs_f64() };
    on_tried(&tried);
    Ok(tried)
}

struct BatchSearch<'a, J: Job> {
    request: &'a FindRequest,
    features: Features,
    finder: Finder,
    trials: Trials<'a, J>,
    on_tried: OnTried<'a>,
    n_repeated: u32,
    timed: Timed,
}

impl<J: Job> BatchSearch<'_, J> {
    /// Times the batches below the largest.
    fn race(&mut self, largest: u32) -> Result<Option<Winner>, FindError> {
        let mut race = Race::below(largest, self.request.finder.batch_min)?;
        while let Some(batch) = race.turn() {
            let tried = self.real(StepShape::new(batch, self.request.finder.edge))?;
            self.timed.n_steps += 1;
            match tried.outcome {
                Outcome::Measured { peak, .. } => {
                    self.timed.peak = self.timed.peak.max(peak);
                    race.on_step(batch, tried.seconds)?;
                }
                Outcome::OutOfMemory => {
                    self.timed.n_out_of_memory += 1;
                    race.on_failure(batch)?;
                }
            }
        }
        Ok(race.winner())
    }

    fn real(&mut self, shape: StepShape) -> Result<Tried, TrialError> {
        let n_samples = self.request.effective_batch_size.unwrap_or(shape.samples);
        tried(shape, self.on_tried, || self.trials.run(self.request.phase, shape, n_samples))
    }
}
