//! What the tests of whole runs share.

#[path = "../../../probe/tests/alone/mod.rs"]
mod alone;

use std::collections::BTreeMap;
use std::path::Path;

pub(crate) use alone::alone;
use burn::tensor::Device;

use plimsoll_probe::{DeviceKind, Probe, TrackingAllocator, open};
use plimsoll_train::{
    Alone, Death, Existing, FitConfig, Fleet, Job, Outcome, PlanSparing, RunDir, Shell, StopFlag, TrainError, fit,
    warm_up,
};
use plimsoll_types::{Bytes, Event, StepDone};

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

pub(crate) struct Ran {
    pub(crate) outcome: Result<Outcome, TrainError>,
    pub(crate) events: Vec<Event>,
    pub(crate) warnings: Vec<String>,
}

/// Runs the job with so much room above what is in use; `stop_after` steps a signal arrives.
pub(crate) fn run<J: Job>(
    job: &J,
    config: &FitConfig,
    room: Bytes,
    path: &Path,
    existing: Existing,
    stop_after: Option<u64>,
) -> Ran {
    let ran = run_on(flex_with(room), job, config, path, existing, stop_after);
    assert_eq!(ran.warnings, [] as [&str; 0]);
    ran
}

/// Returns what the steps of a run take at most above what was in use before it, on this machine.
pub(crate) fn needed<J: Job>(job: &J, config: &FitConfig) -> Bytes {
    let (folder, room) = (tempfile::tempdir().unwrap(), Bytes::gib(1));
    let ran = run(job, config, room, folder.path(), Existing::Refuse, None);
    ran.outcome.unwrap();
    let above = |it: &&StepDone| it.peak.saturating_sub(it.capacity.saturating_sub(room));
    steps(&ran.events).iter().map(above).max().unwrap()
}

/// Opens the heap with so much room above what is in use.
///
/// What the threads keep that compute is in use by then.
pub(crate) fn flex_with(room: Bytes) -> Box<dyn Probe> {
    warm_up(DeviceKind::Flex, &Device::flex());
    let in_use = open(DeviceKind::Flex, None).unwrap().read().unwrap().in_use;
    open(DeviceKind::Flex, Some(in_use.saturating_add(room))).unwrap()
}

/// As [`run`], with a probe of one's own.
pub(crate) fn run_on<J: Job>(
    probe: Box<dyn Probe>,
    job: &J,
    config: &FitConfig,
    path: &Path,
    existing: Existing,
    stop_after: Option<u64>,
) -> Ran {
    run_planned(probe, job, config, path, existing, stop_after, None)
}

/// As [`run_on`], with a plan of steps that recompute activations.
pub(crate) fn run_planned<J: Job>(
    probe: Box<dyn Probe>,
    job: &J,
    config: &FitConfig,
    path: &Path,
    existing: Existing,
    stop_after: Option<u64>,
    plan_sparing: Option<PlanSparing<'_>>,
) -> Ran {
    let run_dir = RunDir::open(path, existing).unwrap();
    run_in(run_dir, (probe, Box::new(Alone)), job, config, (existing, None), (stop_after, plan_sparing))
}

/// As [`run_planned`], as one rank of several, and after a death.
pub(crate) fn run_in<J: Job>(
    mut run_dir: RunDir,
    (probe, fleet): (Box<dyn Probe>, Box<dyn Fleet>),
    job: &J,
    config: &FitConfig,
    (existing, death): (Existing, Option<Death>),
    (stop_after, plan_sparing): (Option<u64>, Option<PlanSparing<'_>>),
) -> Ran {
    let stop = StopFlag::default();
    let mut warnings = Vec::new();
    let signal = stop.clone();
    let mut observer = |event: &Event, _: &plimsoll_monitor::Progress| {
        if let Event::StepDone(done) = event
            && Some(done.step + 1) == stop_after
        {
            signal.set(2);
        }
    };
    let device = Device::flex().autodiff();
    let shell = Shell {
        run_dir: &mut run_dir,
        existing,
        device,
        probe,
        stop,
        observer: &mut observer,
        watching: None,
        warn: &mut |warning| warnings.push(warning.to_owned()),
        death,
        plan_sparing: plan_sparing.map(|it| it as PlanSparing<'_>),
        config_text: "",
        fleet,
    };
    let outcome = fit(job, config, shell);
    let events = run_dir.events();
    // Of a run that does not begin the first rank may have left nothing by now.
    let events = if outcome.is_err() { events.unwrap_or_default() } else { events.unwrap() };
    Ran { outcome, events, warnings }
}

pub(crate) fn steps(events: &[Event]) -> Vec<&StepDone> {
    events.iter().filter_map(|event| if let Event::StepDone(done) = event { Some(done) } else { None }).collect()
}

/// Every epoch that is complete holds every sample exactly once; returns how many those are.
#[track_caller]
pub(crate) fn check_epochs(events: &[Event], n_samples: u64) -> usize {
    let mut epochs: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for done in steps(events) {
        epochs.entry(done.epoch).or_default().extend(done.micro_batches.iter().flat_map(|it| it.ids.iter().copied()));
    }
    let last = epochs.keys().max().copied().unwrap();
    let complete = epochs.into_iter().filter(|(epoch, _)| *epoch < last).map(|(epoch, mut ids)| {
        ids.sort_unstable();
        assert_eq!(ids, (0..n_samples).collect::<Vec<_>>(), "epoch {epoch}");
    });
    complete.count()
}
