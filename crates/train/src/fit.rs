//! The loop.

use burn::tensor::Device;
use plimsoll_fleet::{Alone, Fleet};
use plimsoll_monitor::MatesKept;
use plimsoll_monitor::Progress;
use plimsoll_plan::{PlanError, PlannedNeed};
use plimsoll_probe::{DeviceKind, Probe, ProbeError};
use plimsoll_sampler::StreamStats;
use plimsoll_types::{Bytes, EndReason, Event, Recompute};

use crate::config::FitConfig;
use crate::device::{compute_alone, device_kind, open_device, warm_up};
use crate::error::TrainError;
use crate::job::Job;
use crate::run::{Death, Run};
use crate::run_dir::{Existing, RunDir};
use crate::signal::StopFlag;
use crate::stopwatch::Overhead;

/// Told of every event, with where the run stands.
pub type Observer<'a> = &'a mut dyn FnMut(&Event, &Progress);

/// Told what the user should know, one sentence each.
pub type Warn<'a> = &'a mut dyn FnMut(&str);

/// What a run begins to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// A step.
    Step,
    /// The next items of a validation.
    Validation,
    /// The next items of the test.
    Test,
    /// A checkpoint.
    Checkpoint,
}

/// Told what a run begins to do, and where it stands.
pub type Watching<'a> = &'a mut dyn FnMut(Doing, &Progress);

/// Plans steps that recompute activations, in the midst of a run; see [`plan_sparing`](crate::plan_sparing).
pub type PlanSparing<'a> = &'a mut dyn FnMut(Recompute) -> Result<Vec<PlannedNeed>, PlanError>;

/// What a run needs besides its job and its settings.
pub struct Shell<'a> {
    /// Where everything goes.
    pub run_dir: &'a mut RunDir,
    /// Whether to start or to go on.
    pub existing: Existing,
    /// The device, with gradients.
    pub device: Device,
    /// What measures the device.
    pub probe: Box<dyn Probe>,
    /// The wish to end.
    pub stop: StopFlag,
    /// Told of every event.
    pub observer: Observer<'a>,
    /// Told what the run begins to do, and how far a validation is.
    pub watching: Option<Watching<'a>>,
    /// Told what the user should know.
    pub warn: Warn<'a>,
    /// Plans anew when gradient checkpointing switches on, where plans are wanted and a device keeps pages; without, the
    /// first steps with it tell what they need.
    pub plan_sparing: Option<PlanSparing<'a>>,
    /// The resolved configuration, kept in the run directory as `config.toml`.
    pub config_text: &'a str,
    /// How the process before this one died, where the run goes on after that.
    pub death: Option<Death>,
    /// The ranks that train together; this one alone is [`Alone`].
    pub fleet: Box<dyn Fleet>,
}

impl<'a> Shell<'a> {
    /// Begins a run on a device, capped where a capacity is set, and tells nobody of it; whoever is to be told can be set
    /// in what is returned.
    ///
    /// # Errors
    ///
    /// [`ProbeError`] when the device cannot be opened.
    pub fn open(
        device: DeviceKind,
        capacity: Option<Bytes>,
        run_dir: &'a mut RunDir,
        existing: Existing,
    ) -> Result<Self, ProbeError> {
        // A closure that holds nothing takes no memory.
        let observer = Box::leak(Box::new(|_: &Event, _: &Progress| ()));
        let warn = Box::leak(Box::new(|_: &str| ()));
        Ok(Self {
            run_dir,
            existing,
            probe: plimsoll_probe::open(device, capacity)?,
            device: open_device(device).map_err(|it| it.0)?,
            stop: StopFlag::default(),
            observer,
            watching: None,
            warn,
            plan_sparing: None,
            config_text: "",
            death: None,
            fleet: Box::new(Alone),
        })
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Why.
    pub reason: EndReason,
    /// Steps done.
    pub step: u64,
    /// Wall time of the run, earlier parts included, in seconds.
    pub seconds: f64,
    /// What Plimsoll's own work cost, once a step has been done.
    pub overhead: Option<Overhead>,
    /// How the look-ahead buffer did, where the samples are streamed.
    pub stream: Option<StreamStats>,
    /// How well an epoch mixes with the next, as the last sizes of the run make them, where the lengths of padded or packed
    /// samples are known.
    pub mates_kept: Option<MatesKept>,
}

/// Trains a job under a memory budget, from its start or from its last checkpoint.
///
/// # Errors
///
/// [`TrainError`]; the last checkpoint and the log are whole then. [`TrainError::Axes`] comes before anything is done, and so
/// does [`TrainError::OtherRanks`].
pub fn fit<J: Job>(job: &J, config: &FitConfig, shell: Shell<'_>) -> Result<Outcome, TrainError> {
    let (n_axes, of_cells) = (job.features().n_axes(), config.loader.cells.n_axes());
    if n_axes != of_cells {
        return Err(TrainError::Axes { job: job.name(), n_axes, of_cells });
    }
    if config.deterministic || 1 < config.controller.replicas || 1 < shell.fleet.n_ranks() {
        // What a part needs alone and beside others is the same then.
        compute_alone();
    }
    if let Some(kind) = device_kind(&shell.device) {
        warm_up(kind, &shell.device);
    }
    let mut run = Run::start(job, config, shell)?;
    while run.goes_on().map_err(|error| run.recorded(error))? {
        let taken = run.follow_budget().and_then(|()| run.one_step()).and_then(|()| run.between_steps());
        taken.map_err(|error| run.recorded(error))?;
    }
    run.end().map_err(|error| run.recorded(error))
}
