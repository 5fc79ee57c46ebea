//! Ranks that are threads of this process, each with a device of its own.

use std::thread;

use plimsoll_probe::{Compartment, DeviceKind};
use plimsoll_train::{
    Death, Existing, FitConfig, FleetError, InProcess, Job, Outcome, RunDir, Shell, StepError, StopFlag, TrainError,
    fit, open_device,
};
use plimsoll_types::Bytes;

use super::reduction::adding_on;
use crate::harness::Harness;
use crate::values::Reduction;

/// Another rank than the first.
pub(crate) struct Other {
    pub(crate) rank: usize,
    pub(crate) run_dir: RunDir,
    pub(crate) config: FitConfig,
}

/// What the ranks of a process have in common.
pub(crate) struct Common<'a> {
    pub(crate) harness: &'static dyn Harness,
    pub(crate) devices: &'a [(DeviceKind, Option<Bytes>)],
    pub(crate) reduction: Reduction,
    pub(crate) existing: Existing,
    pub(crate) config_text: &'a str,
    pub(crate) death: Option<Death>,
    pub(crate) stop: &'a StopFlag,
}

/// Trains a job on this thread, and on one for each other rank.
pub(crate) fn fit_beside<J: Job>(
    job: &J,
    (config, mut shell): (&FitConfig, Shell<'_>),
    others: Vec<Other>,
    common: &Common<'_>,
) -> Result<Outcome, TrainError> {
    let adding = (common.reduction, common.devices[0].0);
    if others.is_empty() {
        return fit_adding(job, config, shell, adding);
    }
    let mut fleets = InProcess::start(u32::try_from(1 + others.len()).unwrap_or(u32::MAX)).into_iter();
    if let Some(first) = fleets.next() {
        shell.fleet = Box::new(first);
    }
    enter(0);
    thread::scope(|scope| {
        let spawn = |(other, fleet): (Other, InProcess)| scope.spawn(move || other.fit(job, fleet, common));
        let others: Vec<_> = others.into_iter().zip(fleets).map(spawn).collect();
        let own = fit_adding(job, config, shell, adding);
        let ended = others.into_iter().map(|it| it.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        first_cause(own, ended.collect())
    })
}

/// Trains a rank that adds where it was asked to.
fn fit_adding<J: Job>(
    job: &J,
    config: &FitConfig,
    shell: Shell<'_>,
    adding: (Reduction, DeviceKind),
) -> Result<Outcome, TrainError> {
    // No step was taken yet.
    let apart = |source| TrainError::Step { step: 0, source: StepError::Fleet(source) };
    let fleet = adding_on(shell.fleet, adding).map_err(apart)?;
    fit(job, config, Shell { fleet, ..shell })
}

/// Counts what this thread takes as that of a rank's device.
fn enter(rank: usize) {
    if let Some(compartment) = Compartment::at(rank) {
        compartment.enter();
    }
}

/// Returns the error that the others follow from, where there is one.
fn first_cause(
    own: Result<Outcome, TrainError>,
    others: Vec<Result<Outcome, TrainError>>,
) -> Result<Outcome, TrainError> {
    let follows =
        |it: &TrainError| matches!(it, TrainError::Step { source: StepError::Fleet(FleetError::Gone { .. }), .. });
    let errors = others.into_iter().filter_map(Result::err);
    match own {
        Err(error) if !follows(&error) => Err(error),
        own => errors.into_iter().find(|it| !follows(it)).map_or(own, Err),
    }
}

impl Other {
    fn fit<J: Job>(mut self, job: &J, fleet: InProcess, common: &Common<'_>) -> Result<Outcome, TrainError> {
        enter(self.rank);
        let Common { harness, devices, reduction, existing, config_text, death, stop } = common;
        let (rank, kind) = (self.rank, devices[self.rank].0);
        let device = open_device(kind).map_err(|error| error.0)?;
        let probe = harness.on_fit(harness.open(devices, rank)?);
        let shell = Shell {
            run_dir: &mut self.run_dir,
            existing: *existing,
            device,
            probe,
            stop: (*stop).clone(),
            observer: &mut |_, _| (),
            watching: None,
            warn: &mut |warning| eprintln!("warning: rank {rank}: {warning}"),
            plan_sparing: None,
            config_text,
            death: death.clone(),
            fleet: Box::new(fleet),
        };
        // Of several ranks the first is traced.
        tracing::subscriber::with_default(tracing::subscriber::NoSubscriber::default(), || {
            fit_adding(job, &self.config, shell, (*reduction, kind))
        })
    }
}
