//! What stands between the program and the crates below.

use std::sync::Arc;

use plimsoll_probe::{DeviceKind, Probe, ProbeError, open_among};
use plimsoll_types::Bytes;
use plimsoll_workloads::Hooks;

/// Opens the devices of the program, and has a say in what its jobs do: here it is put to the test.
///
/// What a harness does not define is as in the program that ships, whose harness is [`Plain`].
pub trait Harness: Sync {
    /// Opens the probe of one of the devices of a process, each with the capacity that is set for it.
    ///
    /// # Errors
    ///
    /// [`ProbeError`] where that cannot be done, as from [`open_among`].
    fn open(&self, devices: &[(DeviceKind, Option<Bytes>)], at: usize) -> Result<Box<dyn Probe>, ProbeError> {
        open_among(devices, at)
    }

    /// Returns who is told what is asked of the job, and may make it fail.
    fn hooks(&self) -> Arc<dyn Hooks> {
        Arc::new(Nobody)
    }

    /// A training is about to begin: returns the probe that it measures with in the place of this one.
    fn on_fit(&self, probe: Box<dyn Probe>) -> Box<dyn Probe> {
        probe
    }
}

/// Nothing stands in between.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Harness for Plain {}

struct Nobody;

impl Hooks for Nobody {}
