//! Planning by rehearsal on `CubeCL`: every launch dropped, every page only booked.

mod streams;

use std::sync::{Mutex, MutexGuard, PoisonError};

use burn::tensor::StreamId;
use cubecl::client::Client;
use cubecl::dry_run::DryRun;
use cubecl::{MemoryReport, MemoryScope};
use plimsoll_probe::{CubeProbe, DeviceKind, Probe, ProbeError};
use plimsoll_types::Bytes;

use self::streams::Left;
use crate::{Act, PlanError, Pools, Program, Rehearsal};

/// One dry run at a time: the guard drops the launches of every thread of the process.
static ALONE: Mutex<()> = Mutex::new(());

/// Plans on a device whose allocator keeps pools.
///
/// # Protocol
///
/// Each rehearsal runs on a stream of its own: model and optimizer are made there, the steps run, the pools are read,
/// and everything is dropped and returned before the next one.
///
/// A fresh stream starts with the smallest pages, and a page size never shrinks on a stream.
/// `CubeCL` keeps 128 streams; once each was used, the one with the smallest pages is taken again, so go from small to
/// large.
/// [`Rehearsal::is_fresh`] says whether the pages are those of a fresh process.
///
/// With Burn's fusion, operations run on a stream of the fusion server instead; every stream that a rehearsal changes is
/// read then, and no other thread may use the device.
pub struct DryRunPlanner {
    probe: CubeProbe,
    /// Whether tensors live on the fusion server's stream, so that only the whole device can be read.
    fused: bool,
}

impl DryRunPlanner {
    /// Opens the device that Burn knows under the same name.
    ///
    /// # Errors
    ///
    /// [`PlanError::NoPools`] for a device without pools, [`PlanError::Probe`] for one that is not there.
    pub fn try_open(kind: DeviceKind, fused: bool) -> Result<Self, PlanError> {
        let probe = match kind {
            DeviceKind::Flex => return Err(PlanError::NoPools { device: kind.to_string() }),
            DeviceKind::Vulkan(index) => CubeProbe::try_vulkan(index)?,
            DeviceKind::Cuda(index) => CubeProbe::try_cuda(index)?,
        };
        Ok(Self { probe, fused })
    }

    /// Returns the largest tensor that the device serves.
    ///
    /// # Errors
    ///
    /// [`PlanError::Probe`] when the device does not answer.
    pub fn page_limit(&self) -> Result<Bytes, PlanError> {
        Ok(self.probe.largest_allocation()?)
    }

    /// Returns what the device's pools hold now, of all streams.
    pub fn pools(&self) -> Pools {
        Pools::from(&self.probe.client().memory_report(MemoryScope::Device))
    }

    /// Does something for real on a stream that nobody has used, or else on the idle one with the smallest pages, so that
    /// it starts as a fresh process does; no dry run drops its launches meanwhile.
    ///
    /// Do not plan inside: it would wait for itself.
    pub fn really<T>(&self, work: impl FnOnce() -> T) -> T {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        streams::choose(&self.probe.client().memory_report(MemoryScope::Device)).0.executes(work)
    }

    /// Rehearses what is done, one thing after the other, and returns what the pools hold after each.
    ///
    /// # Errors
    ///
    /// [`PlanError::ReadsValue`] when a step reads a value, [`PlanError::Probe`] when a cleanup is refused.
    pub fn rehearse<P: Program>(&self, program: &P, acts: &[Act]) -> Result<Rehearsal, PlanError> {
        let scene = Stage::open(self.probe.client().clone(), self.fused);
        let page_before = scene.before.page;
        let after = scene.run(|scene| {
            let mut state = program.start();
            let mut after = Vec::with_capacity(acts.len());
            for act in acts {
                match act {
                    Act::Train(step) => state = program.train(state, step).0,
                    Act::Infer(shape) => drop(program.infer(&state, *shape)),
                    Act::CleanUp => scene.clean_up()?,
                }
                after.push(scene.pools(act)?);
            }
            Ok(after)
        })?;
        Ok(Rehearsal { after, page_before })
    }
}

/// A dry run under way.
struct Stage {
    client: Client,
    stream: StreamId,
    before: Left,
    /// Every stream as it was before.
    report: MemoryReport,
    fused: bool,
    _guard: DryRun,
    _alone: MutexGuard<'static, ()>,
}

impl Stage {
    fn open(client: Client, fused: bool) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let report = client.memory_report(MemoryScope::Device);
        let (stream, before) =
            if fused { (StreamId::current(), Left::of_all(&report)) } else { streams::choose(&report) };
        Self { client, stream, before, report, fused, _guard: DryRun::new(), _alone: alone }
    }

    /// Runs a rehearsal on the stage's stream.
    fn run<T>(self, rehearsal: impl FnOnce(&Self) -> Result<T, PlanError>) -> Result<T, PlanError> {
        if self.fused { rehearsal(&self) } else { self.stream.executes(|| rehearsal(&self)) }
    }

    fn clean_up(&self) -> Result<(), PlanError> {
        let refused = |error: cubecl::server::ServerError| ProbeError::CleanupRefused {
            device: self.client.properties().identity.name.clone(),
            reason: error.to_string(),
        };
        Ok(self.client.memory_cleanup().map_err(refused)?)
    }

    /// Returns what the rehearsal's stream holds; with fusion, that of every stream that is not as it was before.
    fn report(&self) -> MemoryReport {
        if !self.fused {
            return self.client.memory_report(MemoryScope::CurrentStream);
        }
        let mut report = self.client.memory_report(MemoryScope::Device);
        report
            .streams
            .retain(|it| !self.report.streams.iter().any(|b| b.stream == it.stream && b.usage() == it.usage()));
        report
    }

    fn pools(&self, act: &Act) -> Result<Pools, PlanError> {
        let mut pools = Pools::from(&self.report());
        if pools.largest <= self.before.largest {
            // The pools never forget their largest allocation: this one is that of an earlier rehearsal.
            pools.largest = Bytes::ZERO;
        }
        if self.before.staged < pools.staged {
            return Err(PlanError::ReadsValue { shape: act.shape() });
        }
        Ok(pools)
    }
}

impl Drop for Stage {
    /// Returns every booked page, whatever became of the rehearsal: one that is used later could not be backed.
    ///
    /// The guard is dropped after this.
    fn drop(&mut self) {
        if let Err(error) = self.clean_up() {
            // Nothing to be done here; what follows finds the pages, and fails with the same words.
            drop(error);
        }
    }
}
