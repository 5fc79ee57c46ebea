//! One of the devices of a run.

use std::fmt;
use std::panic::resume_unwind;
use std::thread;

use plimsoll_plan::PlanError;
use plimsoll_probe::{Compartment, DeviceKind, Probe};
use plimsoll_train::compute_alone;
use plimsoll_types::Bytes;

use crate::harness::Harness;

/// One of the devices of a run, by its place among them, which is its rank.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) harness: &'a dyn Harness,
    /// All of them, each with the capacity that is set for it.
    pub(crate) devices: &'a [(DeviceKind, Option<Bytes>)],
    pub(crate) at: usize,
}

impl<'a> Place<'a> {
    /// Returns all places of these devices.
    pub(crate) fn all(
        harness: &'a dyn Harness,
        devices: &'a [(DeviceKind, Option<Bytes>)],
    ) -> impl Iterator<Item = Self> {
        (0..devices.len()).map(move |at| Self { harness, devices, at })
    }

    pub(crate) fn kind(self) -> DeviceKind {
        self.devices[self.at].0
    }

    /// Whether it is the only device.
    pub(crate) fn is_alone(self) -> bool {
        self.devices.len() == 1
    }

    /// Opens its probe anew.
    pub(crate) fn open(self) -> Result<Box<dyn Probe>, PlanError> {
        Ok(self.harness.open(self.devices, self.at)?)
    }

    /// Does something as its rank does it: one of several on a thread of its own, which computes alone, and takes memory in
    /// the compartment of the device.
    pub(crate) fn work<R: Send>(self, work: impl FnOnce() -> R + Send) -> R {
        if self.is_alone() {
            return work();
        }
        let on_thread = || {
            Compartment::at(self.at).into_iter().for_each(Compartment::enter);
            compute_alone();
            work()
        };
        thread::scope(|scope| scope.spawn(on_thread).join()).unwrap_or_else(|panic| resume_unwind(panic))
    }
}

/// Writes `device 1 (flex)`.
impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {} ({})", self.at, self.kind())
    }
}
