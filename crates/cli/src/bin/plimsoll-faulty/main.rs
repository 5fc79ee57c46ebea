//! The program under injected faults, or on a simulated device: what puts its runs to the test.
//!
//! The variable `PLIMSOLL_FAULTS` lists faults in JSON, for the binary `chaos` of plimsoll-chaos; a fault that has happened
//! is noted in a file, so that a process that goes on with the run does not repeat it.
//! With `PLIMSOLL_SIMULATED` the device is a simulated one, for the golden runs.
//! Without either it is `plimsoll`.

mod faults;
mod list;
mod probe;
mod simulated;

use std::process::ExitCode;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, LazyLock, OnceLock};

use plimsoll_cli::{Harness, Plain};
use plimsoll_probe::{DeviceKind, Probe, ProbeError};
use plimsoll_train::SourceError;
use plimsoll_types::{Bytes, Phase, StepShape};
use plimsoll_workloads::{HookedPart, Hooks};

use crate::faults::Faults;
use crate::list::List;
use crate::probe::FaultyProbe;
use crate::simulated::{SimulatedDevice, SimulatedProbe};

fn main() -> ExitCode {
    static FAULTY: LazyLock<Faulty> = LazyLock::new(Faulty::from_environment);
    plimsoll_cli::run(&*FAULTY)
}

/// The harness of this process.
struct Faulty(Arc<Watch>);

impl Faulty {
    fn from_environment() -> Self {
        let device = simulated::is_wanted().then(|| Arc::new(SimulatedDevice::default()));
        Self(Arc::new(Watch { device, faults: OnceLock::new() }))
    }
}

impl Harness for Faulty {
    fn open(&self, devices: &[(DeviceKind, Option<Bytes>)], at: usize) -> Result<Box<dyn Probe>, ProbeError> {
        match &self.0.device {
            Some(device) => Ok(Box::new(SimulatedProbe::new(device, devices[at].1))),
            None => Plain.open(devices, at),
        }
    }

    fn hooks(&self) -> Arc<dyn Hooks> {
        Arc::clone(&self.0) as Arc<dyn Hooks>
    }

    fn on_fit(&self, probe: Box<dyn Probe>) -> Box<dyn Probe> {
        let Watch { device, faults } = &*self.0;
        if let Some(device) = device {
            // What was measured before the run is no part of it.
            device.forget();
        }
        let Some(list) = List::from_environment() else { return probe };
        let faults = faults.get_or_init(|| Arc::new(Faults::new(list)));
        Box::new(FaultyProbe::new(probe, Arc::clone(faults)))
    }
}

/// Watches what a process asks of its job.
struct Watch {
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
