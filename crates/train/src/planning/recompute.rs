//! Plans that choose whose activations are recomputed.

use std::collections::HashMap;

use plimsoll_plan::{Compared, DryRunPlanner, MemoryPlan, OnPlanned, OpenProbe, Pace, PlanError, RealSteps, fastest};
use plimsoll_predict::Phase;
use plimsoll_probe::DeviceKind;
use plimsoll_types::{Bytes, Extent, Recompute, StepShape};

use super::sounding::extents;
use super::{PlanRequest, plan_memory, trials};
use crate::device::open_device;
use crate::job::Job;
use crate::source::known_extents;

/// Where a plan may recompute activations that its request keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MayRecompute {
    /// Nowhere.
    Nowhere,
    /// Where nothing fits otherwise.
    WhereNeeded,
    /// There, and on a device with pools where larger micro-batches win more time than it takes.
    WhereFaster,
}

/// Plans every shape of a request, with activations kept and recomputed, and says in the plan's fingerprint which are
/// recomputed.
///
/// Where both fit and larger micro-batches fit with activations recomputed, real steps of both tell which is faster.
///
/// # Errors
///
/// As [`plan_memory`].
pub fn plan_recomputing<J: Job>(
    job: &J,
    request: &PlanRequest,
    may_recompute: MayRecompute,
    open_probe: OpenProbe<'_>,
    progress: OnPlanned<'_>,
) -> Result<MemoryPlan, PlanError> {
    let kept = plan_memory(job, request, open_probe, progress);
    if may_recompute == MayRecompute::Nowhere || request.recompute.is_on_anywhere() {
        return kept;
    }
    let needed = match &kept {
        Ok(plan) => plan.recompute(),
        // Probes approach the longest edge on a CPU, each certain by those before it: all of one kind.
        Err(PlanError::OutOfReach { phase: Phase::Train, .. }) => Recompute::ALWAYS,
        Err(PlanError::SmallestDoesNotFit { shape, .. }) => request.loader.recompute_from(shape.edge()),
        Err(_) => return kept,
    };
    let compared = match &kept {
        Ok(kept) if may_recompute == MayRecompute::WhereFaster && request.device != DeviceKind::Flex => {
            compare(job, request, kept, open_probe, progress)?
        }
        _ => Vec::new(),
    };
    let recompute = fastest(&compared, needed, &extents(request));
    let chosen = if recompute == Recompute::NEVER {
        kept?
    } else {
        match plan_memory(job, &PlanRequest { recompute, ..request.clone() }, open_probe, progress) {
            // Nothing was tried: what was without says more.
            Err(PlanError::NoCell) => kept?,
            chosen => chosen?,
        }
    };
    Ok(MemoryPlan { compared, ..chosen })
}

/// Holds the largest micro-batches of each extent against larger ones that fit with activations recomputed.
fn compare<J: Job>(
    job: &J,
    request: &PlanRequest,
    kept: &MemoryPlan,
    open_probe: OpenProbe<'_>,
    progress: OnPlanned<'_>,
) -> Result<Vec<Compared>, PlanError> {
    let is_larger = |it: &&StepShape| kept.largest_batch(it.extent()).is_some_and(|largest| largest < it.samples);
    let sparing = PlanRequest {
        recompute: Recompute::ALWAYS,
        ladder: request.ladder.iter().filter(is_larger).copied().collect(),
        lattice: Vec::new(),
        inference: Vec::new(),
        is_corrected: false,
        schedule_steps: 0,
        ..request.clone()
    };
    if sparing.ladder.is_empty() {
        return Ok(Vec::new());
    }
    let recomputed = match plan_memory(job, &sparing, open_probe, progress) {
        Ok(plan) => plan.corrected_as(Some(kept), Bytes::ZERO),
        Err(PlanError::SmallestDoesNotFit { .. } | PlanError::NeverFits { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let planner = DryRunPlanner::try_open(request.device)?;
    let device = open_device(request.device).map_err(|error| error.0)?;
    let n_samples = counted(job, request);
    let pace = |request: &PlanRequest, shape: StepShape, n_samples| -> Result<Option<Pace>, PlanError> {
        let open_steps = || Ok(Box::new(trials(job, request, &device, open_probe)?) as Box<dyn RealSteps + '_>);
        planner.pace(&device, (open_probe, &open_steps), shape, n_samples)
    };
    let mut compared = Vec::new();
    for extent in extents(request) {
        let (Some(small), Some(large)) = (kept.largest_batch(extent), recomputed.largest_batch(extent)) else {
            continue;
        };
        let shape = |samples| StepShape::of(samples, extent);
        let (Some(kept), Some(recomputed)) =
            (pace(request, shape(small), large)?, pace(&sparing, shape(large), large)?)
        else {
            continue;
        };
        let n_samples = n_samples.get(&extent).copied().unwrap_or(1);
        compared.push(Compared { extent, n_samples, kept, recomputed });
    }
    Ok(compared)
}

/// Counts the samples that are padded to each extent, as far as their lengths are known.
fn counted<J: Job>(job: &J, request: &PlanRequest) -> HashMap<Extent, u64> {
    let mut n_samples = HashMap::new();
    for own in known_extents(&*job.source()).flatten() {
        *n_samples.entry(request.loader.cells.padded(own)).or_default() += 1;
    }
    n_samples
}
