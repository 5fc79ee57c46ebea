//! The batch size that suits a device, for one's own job.

use std::cell::RefCell;
use std::collections::BTreeMap;

use burn::tensor::Tensor;
use plimsoll_plan::{DryRunPlanner, Fit, PlanError, Rehearsed, Sweep};
use plimsoll_policy::{Finder, FinderConfig, Found, Outcome, Planned, PolicyError, Race, Search, Source, Winner};
use plimsoll_predict::{Key, Phase, PredictError, Predictor, PredictorConfig};
use plimsoll_probe::{DeviceKind, Probe};
use plimsoll_types::{Bytes, Features, Prediction, StepShape};

use crate::config::OptimizerRecovery;
use crate::controller::Keys;
use crate::device::{has_fusion, open_device, platform, small_batch_regime};
use crate::job::Job;
use crate::rehearsal::JobProgram;
use crate::source::Source as _;
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
    /// The edge, the limits of the batch, and the part of the capacity that may be used.
    pub finder: FinderConfig,
    /// Training steps, or forward passes without gradients.
    pub phase: Phase,
    /// Samples of an optimizer step; `None` for one micro-batch a step, whatever its size.
    pub effective_batch_size: Option<u32>,
    /// What makes a batch the best.
    pub objective: Objective,
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

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundBatch {
    /// The search, with its figures.
    pub found: Found,
    /// The fastest batch, where that was asked for.
    pub winner: Option<Winner>,
    /// The real steps of the search, in order.
    pub trials: Vec<Trial>,
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
    Policy(#[from] PolicyError),
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

/// Finds the batch size of a job on a device.
///
/// On a device with pools a dry run says what any batch reserves, and at most 3 real steps confirm it; on others at most
/// 4 real steps, each certified to fit by those before it. `on_trial` is told of each.
///
/// # Errors
///
/// [`FindError::Policy`] when the smallest batch does not fit, with what it needs and what there is.
pub fn find_batch_size<J: Job>(
    job: &J,
    request: &FindRequest,
    open_probe: OpenProbe<'_>,
    on_trial: &mut dyn FnMut(&Trial),
) -> Result<FoundBatch, FindError> {
    let probe = open_probe()?;
    let finder = Finder::try_new(request.finder.clone(), probe.capacity().map_err(PlanError::from)?)?;
    let device = open_device(request.device, request.checkpointing).map_err(|it| PlanError::from(it.0))?;
    let name = probe.name();
    drop(probe);
    let trials = Trials::try_new(job, device.clone(), open_probe()?)?.recovering(request.optimizer_recovery);
    let mut search = BatchSearch { request, features: job.features(), finder, trials, ran: Vec::new(), on_trial };
    let found = match request.device {
        DeviceKind::Flex => search.by_probes(&name)?,
        DeviceKind::Vulkan(_) | DeviceKind::Cuda(_) => {
            search.by_plan(&JobProgram::new(job, device, request.optimizer_recovery))?
        }
    };
    let winner = match request.objective {
        Objective::Largest => None,
        Objective::Throughput => search.race(found.batch)?,
    };
    Ok(FoundBatch { found, winner, trials: search.ran })
}

/// Finds the largest batch of work without gradients that fits, such as generation, by real runs of it.
///
/// `run` does the work of a shape with any values and returns all that is read of it. Each run is certain to fit by a
/// bound from those before it, but for the first.
///
/// # Errors
///
/// [`FindError::Policy`] when the smallest batch does not fit, with what it needs and what there is.
pub fn find_inference_batch(
    device: DeviceKind,
    finder: FinderConfig,
    probe: &mut dyn Probe,
    run: &mut dyn FnMut(StepShape) -> Tensor<1>,
    on_trial: &mut dyn FnMut(&Trial),
) -> Result<Found, FindError> {
    let (capacity, platform) = (probe.capacity().map_err(PlanError::from)?, platform(device, &probe.name()));
    let keys = Keys { checkpointing: false, platform, small_batch: small_batch_regime(device) };
    let edge = finder.edge;
    let mut finder = Finder::try_new(finder, capacity)?;
    let key = |shape| keys.key(Phase::Infer, shape);
    let bounds = Predictor::try_new(PredictorConfig::default())?;
    by_probes(&mut finder, bounds, key, |_| Bytes::ZERO, edge, &mut |finder, batch| {
        let shape = StepShape::new(batch, edge);
        let ran = step(finder, batch, forward_trial(probe, capacity, shape, || run(shape)))?;
        ran.iter().for_each(&mut *on_trial);
        Ok(ran)
    })
}

/// Tells the finder of a step that ran out of memory, of which nothing is left.
fn step(finder: &mut Finder, batch: u32, ran: Result<Trial, TrialError>) -> Result<Option<Trial>, FindError> {
    match ran {
        Ok(trial) => Ok(Some(trial)),
        Err(TrialError::OutOfMemory(_)) => {
            finder.on_trial(batch, Outcome::OutOfMemory)?;
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Runs one real step of a batch; `None` when it ran out of memory, which the finder then knows.
type RealStep<'a> = &'a mut dyn FnMut(&mut Finder, u32) -> Result<Option<Trial>, FindError>;

/// Searches by real steps, each certain to fit but the first; `host` is what is resident for the samples of a shape.
fn by_probes(
    finder: &mut Finder,
    mut predictor: Predictor,
    key: impl Fn(StepShape) -> Key,
    host: impl Fn(StepShape) -> Bytes,
    edge: u32,
    step: RealStep<'_>,
) -> Result<Found, FindError> {
    let mut resident = Bytes::ZERO;
    loop {
        let bound = |shape| -> Option<Prediction> {
            predictor.predict(key(shape), shape, resident.saturating_add(host(shape)))
        };
        let batch = match finder.search(Source::Probe(&bound))? {
            Search::Found(found) => return Ok(found),
            Search::Try { batch, .. } => batch,
        };
        let Some(trial) = step(finder, batch)? else { continue };
        let trial = trial.steady();
        let shape = StepShape::new(batch, edge);
        resident = trial.resident.saturating_sub(host(shape));
        predictor.observe(key(shape), trial.observation())?;
        finder.on_trial(batch, Outcome::Fitted { resident: trial.resident, peak: trial.peak })?;
    }
}

struct BatchSearch<'a, J: Job> {
    request: &'a FindRequest,
    features: Features,
    finder: Finder,
    trials: Trials<'a, J>,
    ran: Vec<Trial>,
    on_trial: &'a mut dyn FnMut(&Trial),
}

impl<J: Job> BatchSearch<'_, J> {
    fn by_probes(&mut self, name: &str) -> Result<Found, FindError> {
        let (request, platform) = (self.request, platform(self.request.device, name));
        let (checkpointing, small_batch) = (request.checkpointing, small_batch_regime(request.device));
        let keys = Keys { checkpointing, platform, small_batch };
        let mut finder = self.finder.clone();
        let key = |shape| keys.key(request.phase, shape);
        let source = self.trials.source();
        let host = |shape: StepShape| match request.phase {
            Phase::Train => {
                let n_samples = request.effective_batch_size.unwrap_or(0).max(shape.samples);
                source.buffer_bytes(shape.with_samples(n_samples))
            }
            Phase::Infer => Bytes::ZERO,
        };
        let config = PredictorConfig { features: self.features, ..PredictorConfig::default() };
        let bounds = Predictor::try_new(config)?;
        by_probes(&mut finder, bounds, key, host, request.finder.edge, &mut |finder, batch| {
            let trial = step(finder, batch, self.real(batch))?;
            self.ran.extend(trial.map(Trial::steady));
            Ok(trial)
        })
    }

    fn by_plan(&mut self, program: &JobProgram<'_, J>) -> Result<Found, FindError> {
        let planner = DryRunPlanner::try_open(self.request.device, has_fusion(self.request.device))?;
        let sweep = RefCell::new(Sweep::try_new(&planner, program, self.request.phase)?);
        let failure = RefCell::new(None);
        let rehearsed = RefCell::new(BTreeMap::new());
        let plan = |shape: StepShape| {
            let cell = sweep.borrow_mut().cell(shape, self.request.effective_batch_size.unwrap_or(shape.samples));
            let it = cell.map_err(|error| failure.replace(Some(error))).ok()?;
            rehearsed.borrow_mut().insert(shape.samples, it.clone());
            let reserved = it.steady.reserved.saturating_add(it.spare);
            (it.cell.fit != Fit::NeverFits).then_some(Planned { reserved, page: it.steady.page() })
        };
        loop {
            let next = self.finder.search(Source::Plan(&plan));
            if let Some(error) = failure.take() {
                return Err(error.into());
            }
            let batch = match next? {
                Search::Found(found) => return Ok(found),
                Search::Try { batch, .. } => batch,
            };
            let before = planner.pools();
            // From empty pools, as its plan.
            let ran = planner.really(|| self.real(batch));
            let ran = step(&mut self.finder, batch, ran)?;
            self.trials.forget()?;
            let Some(trial) = ran else { continue };
            let booked = rehearsed.borrow().get(&batch).map(|it: &Rehearsed| (it.first.reserved, it.steady.reserved));
            let (first, steady) = booked.unwrap_or_default();
            let beyond = trial.reserved.saturating_sub(before.total()).saturating_sub(first);
            self.learn(trial, steady.saturating_add(beyond))?;
        }
    }

    fn learn(&mut self, trial: Trial, peak: Bytes) -> Result<(), FindError> {
        self.finder.on_trial(trial.shape.samples, Outcome::Fitted { resident: trial.resident, peak })?;
        self.ran.push(trial);
        Ok(())
    }

    /// Times the batches below the largest.
    fn race(&mut self, largest: u32) -> Result<Option<Winner>, FindError> {
        let mut race = Race::below(largest, self.request.finder.batch_min)?;
        while let Some(batch) = race.turn() {
            match self.real(batch) {
                Ok(trial) => race.on_step(batch, trial.seconds)?,
                Err(TrialError::OutOfMemory(_)) => race.on_failure(batch)?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(race.winner())
    }

    fn real(&mut self, batch: u32) -> Result<Trial, TrialError> {
        let shape = StepShape::new(batch, self.request.finder.edge);
        let n_samples = self.request.effective_batch_size.unwrap_or(batch);
        let trial = self.trials.run(self.request.phase, shape, n_samples)?;
        (self.on_trial)(&trial);
        Ok(trial)
    }
}
