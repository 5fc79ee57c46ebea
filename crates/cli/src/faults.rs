//! What can be done to a run from inside: faults, and a device that is simulated.
//!
//! The variable `PLIMSOLL_FAULTS` lists faults in JSON, for the binary `chaos` of plimsoll-bench; a fault that has happened
//! is noted in a file, so that a process that goes on with the run does not repeat it.
//! With `PLIMSOLL_SIMULATED` the device is a simulated one, for the golden runs.
//! Without either nothing happens.

mod list;
mod probe;
mod simulated;

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use plimsoll_probe::{DeviceKind, HeapCounters, Probe, ProbeError};
use plimsoll_train::{FitConfig, Hooked, HookedPart, Hooks, Job, Outcome, Shell, SourceError, TrainError};
use plimsoll_types::{Bytes, Phase, StepShape};

use self::list::{Kind, List};
use self::probe::FaultyProbe;
use self::simulated::{SimulatedDevice, SimulatedProbe};
use crate::prepare::Prepared;

/// Lets the job of a process be watched.
pub(crate) fn watched<J: Job>(prepared: Prepared<J>) -> Prepared<Hooked<J, Watch>> {
    prepared.with_job(|job| Hooked { job, hooks: Arc::clone(watch()) })
}

/// Opens the probe of a device as [`plimsoll_probe::open`] does, or that of the simulated one.
pub(crate) fn open(kind: DeviceKind, capacity: Option<Bytes>) -> Result<Box<dyn Probe>, ProbeError> {
    match &watch().device {
        Some(device) => Ok(Box::new(SimulatedProbe::new(device, capacity))),
        None => plimsoll_probe::open(kind, capacity),
    }
}

/// Trains as [`plimsoll_train::fit`] does, with the faults that the environment lists.
pub(crate) fn fit<'a, J: Job>(job: &'a J, config: &'a FitConfig, shell: Shell<'a>) -> Result<Outcome, TrainError> {
    // What was measured before the run is no part of it.
    watch().device.iter().for_each(|it| it.forget());
    let Some(list) = List::from_environment() else { return plimsoll_train::fit(job, config, shell) };
    let faults = Arc::new(Faults { list: Mutex::new(list), is_validating: AtomicBool::new(false) });
    let faults = watch().faults.get_or_init(|| faults);
    let probe = Box::new(FaultyProbe::new(shell.probe, Arc::clone(faults)));
    plimsoll_train::fit(job, config, Shell { probe, ..shell })
}

/// Returns who watches this process.
fn watch() -> &'static Arc<Watch> {
    static WATCH: OnceLock<Arc<Watch>> = OnceLock::new();
    WATCH.get_or_init(|| {
        let device = simulated::is_wanted().then(|| Arc::new(SimulatedDevice::default()));
        Arc::new(Watch { device, faults: OnceLock::new() })
    })
}

/// Watches what a process asks of its job.
pub(crate) struct Watch {
    device: Option<Arc<SimulatedDevice>>,
    /// Those of the run, once it has begun.
    faults: OnceLock<Arc<Faults>>,
}

impl Hooks for Watch {
    fn on_read(&self, _epoch: u64, id: u64) -> Result<(), SourceError> {
        self.faults.get().map_or(Ok(()), |it| it.on_read(id))
    }

    fn on_part(&self, part: &HookedPart) {
        self.device.iter().for_each(|it| it.on_part(part));
        self.faults.get().into_iter().for_each(|it| it.on_part(part.samples.len()));
    }

    fn on_forward(&self, shape: StepShape) {
        self.device.iter().for_each(|it| it.on_forward(shape));
        self.faults.get().into_iter().for_each(|it| it.list().exceed(Phase::Infer));
    }

    fn on_validation(&self, is_running: bool) {
        self.faults.get().into_iter().for_each(|it| it.is_validating.store(is_running, SeqCst));
    }
}

/// The faults of a run, and where it stands.
struct Faults {
    list: Mutex<List>,
    is_validating: AtomicBool,
}

impl Faults {
    fn list(&self) -> MutexGuard<'_, List> {
        // A thread that was made to panic has changed nothing by halves.
        self.list.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn on_read(&self, id: u64) -> Result<(), SourceError> {
        let due = {
            let mut list = self.list();
            list.reads += 1;
            let at = list.reads;
            list.take(at, |it| matches!(it, Kind::ReadError | Kind::Unreadable | Kind::WorkerPanic), id)
        };
        match due {
            // The lock is free again: only this thread ends.
            Some(Kind::WorkerPanic) => panic!("injected while sample {id} was read"),
            Some(_) => Err(SourceError { sample_id: id, reason: "injected".to_owned() }),
            None => Ok(()),
        }
    }

    fn on_part(&self, n_samples: usize) {
        let mut list = self.list();
        list.parts += 1;
        list.readings = 0;
        if list.offset.is_some() {
            list.use_up(|it| *it == Kind::Oom);
        }
        list.exceed(Phase::Train);
        let at = list.parts;
        if list.take(at, |it| *it == Kind::Kill, 0).is_some() {
            kill_this_process();
        }
        let is_refusal = |it: &Kind| matches!(it, Kind::RefusedAllocation { samples, .. } if *samples <= n_samples);
        if let Some(Kind::RefusedAllocation { bytes, .. }) = list.take(at, is_refusal, 0) {
            let counters = HeapCounters::of_program();
            counters.set_limit(counters.current() + bytes);
        }
    }
}

/// Ends as by kill −9.
fn kill_this_process() {
    #[cfg(unix)]
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
        .expect("a process can end itself");
}
