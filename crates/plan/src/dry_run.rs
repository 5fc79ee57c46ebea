//! Planning by rehearsal on `CubeCL`: every launch dropped, every page only booked.

mod streams;
mod tuning;

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use burn::tensor::{Device, StreamId};
use cubecl::MemoryScope;
use cubecl::client::Client;
use cubecl::dry_run::DryRun;
use plimsoll_probe::{CubeProbe, DeviceKind, Probe, ProbeError};
use plimsoll_types::Bytes;

use self::streams::Left;
use self::tuning::Tuning;
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
/// Burn's fusion keeps operations back to fuse them with later ones, on the stream that they were asked for on; they are
/// handed over before pools are read.
///
/// # Kernels that are tuned
///
/// Burn chooses among kernels by running all of them at the first launch of their kind, in a dry run too, with buffers of
/// their own. A rehearsal that met such a launch is made again on another stream, where the choice is known, so that its
/// pages are those of a process that tunes nothing: the run on its own stream, or the next process, since `CubeCL` keeps
/// what it has chosen on disk.
pub struct DryRunPlanner {
    probe: CubeProbe,
    /// Rehearsals that met kernels that were not tuned.
    n_made_again: Cell<u64>,
}

/// Rehearsals of the same acts at most: what was not measured in the first, as on a busy device, is chosen unmeasured, and
/// what another choice leads to may be tuned in the second.
const MOST_REHEARSALS: usize = 3;

impl DryRunPlanner {
    /// Opens the device that Burn knows under the same name.
    ///
    /// # Errors
    ///
    /// [`PlanError::NoPools`] for a device without pools, [`PlanError::Probe`] for one that is not there.
    pub fn try_open(kind: DeviceKind) -> Result<Self, PlanError> {
        let probe = match kind {
            DeviceKind::Flex => return Err(PlanError::NoPools { device: kind.to_string() }),
            DeviceKind::Vulkan(index) => CubeProbe::try_vulkan(index)?,
            DeviceKind::Cuda(index) => CubeProbe::try_cuda(index)?,
        };
        Ok(Self { probe, n_made_again: Cell::new(0) })
    }

    /// Returns the largest tensor that the device serves.
    ///
    /// # Errors
    ///
    /// [`PlanError::Probe`] when the device does not answer.
    pub fn page_limit(&self) -> Result<Bytes, PlanError> {
        Ok(self.probe.largest_allocation()?)
    }

    /// Returns how many rehearsals were made again, since kernels were tuned meanwhile.
    pub fn n_made_again(&self) -> u64 {
        self.n_made_again.get()
    }

    /// Returns what the device's pools hold now, of all streams, once what was asked for on this one is handed over.
    pub fn pools(&self, device: &Device) -> Pools {
        hand_over(device);
        Pools::from(&self.probe.client().memory_report(MemoryScope::Device))
    }

    /// Does something for real on a stream that nobody has used, or else on the idle one with the smallest pages, so that
    /// it starts as a fresh process does; no dry run drops its launches meanwhile. What it leaves is handed over to the device.
    ///
    /// Do not plan inside: it would wait for itself.
    pub fn really<T>(&self, device: &Device, work: impl FnOnce() -> T) -> T {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (stream, _) = streams::choose(&self.probe.client().memory_report(MemoryScope::Device));
        stream.executes(|| {
            let done = work();
            hand_over(device);
            done
        })
    }

    /// Rehearses what is done, one thing after the other, and returns what the pools hold after each; again where kernels
    /// were tuned meanwhile.
    ///
    /// # Errors
    ///
    /// [`PlanError::ReadsValue`] when a step reads a value, [`PlanError::Probe`] when a cleanup is refused.
    pub fn rehearse<P: Program>(&self, program: &P, acts: &[Act]) -> Result<Rehearsal, PlanError> {
        for _ in 1..MOST_REHEARSALS {
            let (rehearsal, n_tuned) = self.rehearse_once(program, acts)?;
            if n_tuned == 0 {
                return Ok(rehearsal);
            }
            self.n_made_again.set(self.n_made_again.get() + 1);
        }
        Ok(self.rehearse_once(program, acts)?.0)
    }

    /// Returns, too, how many launches tuned kernels.
    fn rehearse_once<P: Program>(&self, program: &P, acts: &[Act]) -> Result<(Rehearsal, usize), PlanError> {
        let scene = Stage::open(self.probe.client().clone(), program);
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
            Ok((after, scene.tuning.n_launches()))
        });
        let (after, n_tuned) = after?;
        Ok((Rehearsal { after, page_before }, n_tuned))
    }
}

/// Hands over what the device was asked for on this stream: until then it may hold nothing, or what was dropped.
fn hand_over(device: &Device) {
    // What could not be done carries the failure, and a read of what depends on it fails with it.
    drop(device.flush());
}

/// A dry run under way.
struct Stage {
    client: Client,
    device: Device,
    /// Whether what goes to other devices is read.
    may_read: bool,
    stream: StreamId,
    before: Left,
    tuning: Tuning,
    _guard: DryRun,
    _alone: MutexGuard<'static, ()>,
}

impl Stage {
    fn open<P: Program>(client: Client, program: &P) -> Self {
        let (device, may_read) = (program.device().clone(), program.is_on_several());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (stream, before) = streams::choose(&client.memory_report(MemoryScope::Device));
        let (tuning, guard) = (Tuning::watch(), DryRun::new());
        Self { client, device, may_read, stream, before, tuning, _guard: guard, _alone: alone }
    }

    /// Runs a rehearsal on the stage's stream.
    fn run<T>(self, rehearsal: impl FnOnce(&Self) -> Result<T, PlanError>) -> Result<T, PlanError> {
        self.stream.executes(|| rehearsal(&self))
    }

    fn clean_up(&self) -> Result<(), PlanError> {
        hand_over(&self.device);
        let refused = |error: cubecl::server::ServerError| ProbeError::CleanupRefused {
            device: self.client.properties().identity.name.clone(),
            reason: error.to_string(),
        };
        Ok(self.client.memory_cleanup().map_err(refused)?)
    }

    fn pools(&self, act: &Act) -> Result<Pools, PlanError> {
        hand_over(&self.device);
        let mut pools = Pools::from(&self.client.memory_report(MemoryScope::CurrentStream));
        if pools.largest <= self.before.largest {
            // The pools never forget their largest allocation: this one is that of an earlier rehearsal.
            pools.largest = Bytes::ZERO;
        }
        // What tuning measures with is read too, and this rehearsal is made again.
        if !self.may_read && self.before.staged < pools.staged && self.tuning.n_launches() == 0 {
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
        if let Err(error) = self.stream.executes(|| self.clean_up()) {
            // Nothing to be done here; what follows finds the pages, and fails with the same words.
            drop(error);
        }
    }
}
