//! Soundings of a job: few small steps before the first of a run, so that none is taken of which nothing is known.

use std::collections::BTreeSet;

use plimsoll_plan::{Aim, Enough, OnPlanned, OpenProbe, PlanError, PlannedNeed, Sounding};
use plimsoll_predict::{Keys, Phase, PredictorConfig};
use plimsoll_probe::{DeviceKind, Probe};
use plimsoll_types::{Extent, Features, Fraction, Recompute, StepShape};

use super::{BlankForward, PlanRequest, device_name, trials};
use crate::device::{has_exact_peaks, open_device, platform, small_batch_regime};
use crate::job::Job;
use crate::loader::{BadSample, LoaderConfig};
use crate::source::Source as _;

/// What a run begins with.
#[derive(Clone, Debug)]
pub struct Sounded {
    /// What was read, for [`ControllerConfig::planned`](crate::ControllerConfig::planned).
    pub needs: Vec<PlannedNeed>,
    /// Whose activations are to be recomputed, so that all fit: those that the request names, and where one sample of the
    /// longest edge does not fit without, all that are not certain to.
    pub recompute: Recompute,
}

/// Approaches what a run on a device without pools begins with: the `largest` of its first micro-batches, and one item of each
/// extent of a validation that no other one covers: on one axis the longest. Every trial is certain to fit by those before it;
/// the first is the smallest there is.
///
/// Of a first micro-batch of several samples, one has to fit: a step runs in as many as are certain.
/// Where it does not, and `may_recompute` says so, it is approached once more with recomputed activations.
///
/// The steps are those of a run, with a model and an optimizer of their own, of blank batches: no sample is read. The
/// validation is held against what is in use once there has been a training step.
///
/// # Errors
///
/// [`PlanError::OutOfReach`] where one sample is not certain to fit into the capacity, [`PlanError::Step`] when a step
/// fails for another reason.
pub fn sound<J: Job>(
    job: &J,
    request: &PlanRequest,
    (largest, may_recompute): (&[StepShape], bool),
    open_probe: OpenProbe<'_>,
    progress: OnPlanned<'_>,
) -> Result<Sounded, PlanError> {
    let validated = Extent::outermost(request.inference.iter().map(|it| it.extent()));
    let validation = validated.into_iter().map(|extent| (Phase::Infer, StepShape::of(1, extent)));
    let work: Vec<_> = largest.iter().map(|it| (Phase::Train, *it)).chain(validation).collect();
    let sounding = sounding(job, request, open_probe)?;
    let (mut needs, reached) = sound_all(job, request, (&sounding, &work, Enough::OneSample), open_probe, progress)?;
    let Err(error) = reached else { return Ok(Sounded { needs, recompute: request.recompute }) };
    if !may_recompute || request.recompute.is_on_anywhere() || !error.may_fit_recomputing() {
        return Err(error);
    }
    let n_samples = largest.iter().map(|it| it.samples).max().unwrap_or(1);
    let recompute = sounding.recompute(&needs, n_samples, &extents(request))?;
    // On the way up everything is recomputed, so that each trial says something of the next.
    let request = PlanRequest { recompute: Recompute::ALWAYS, ..request.clone() };
    let sparing = self::sounding(job, &request, open_probe)?;
    let (again, reached) = sound_all(job, &request, (&sparing, &work, Enough::OneSample), open_probe, progress)?;
    reached?;
    needs.extend(again);
    Ok(Sounded { needs, recompute })
}

/// Approaches one shape of a phase, as a search for a batch size begins with it, and returns what was read of it; all of its
/// samples have to fit.
///
/// # Errors
///
/// As [`sound`], and [`PlanError::SmallestDoesNotFit`] where there is no room for any step.
pub fn sound_one<J: Job>(
    job: &J,
    request: &PlanRequest,
    work: (Phase, StepShape),
    open_probe: OpenProbe<'_>,
    progress: OnPlanned<'_>,
) -> Result<Option<PlannedNeed>, PlanError> {
    let sounding = sounding(job, request, open_probe)?;
    let (read, reached) = sound_all(job, request, (&sounding, &[work], Enough::All), open_probe, progress)?;
    reached?;
    Ok(read.into_iter().find(|it| (it.phase, it.shape) == work))
}

fn sounding<J: Job>(job: &J, request: &PlanRequest, open_probe: OpenProbe<'_>) -> Result<Sounding, PlanError> {
    Ok(Sounding {
        predictor: PredictorConfig { features: job.features(), ..request.predictor },
        target: request.target,
        capacity: open_probe()?.capacity()?,
        keys: request.keys(&device_name(request.device)?),
        exact_peaks: has_exact_peaks(request.device),
        longest: (!request.loader.cells.is_empty()).then(|| longest(request)),
    })
}

/// Approaches work by real steps; returns what was read, and whether enough fits.
fn sound_all<J: Job>(
    job: &J,
    request: &PlanRequest,
    (sounding, work, enough): (&Sounding, &[(Phase, StepShape)], Enough),
    open_probe: OpenProbe<'_>,
    progress: OnPlanned<'_>,
) -> Result<(Vec<PlannedNeed>, Result<(), PlanError>), PlanError> {
    let device = open_device(request.device).map_err(|error| error.0)?;
    let aims: Vec<_> = work.iter().map(|(phase, shape)| aim(job, request, *phase, *shape)).collect();
    let mut trials = trials(job, request, &device, open_probe)?;
    Ok(sounding.sound(&aims, enough, &mut trials, progress))
}

/// Returns the extents that a run may train with, from small to large.
pub(super) fn extents(request: &PlanRequest) -> Vec<Extent> {
    if request.loader.cells.is_empty() {
        let extents: BTreeSet<_> = request.ladder.iter().map(|it| it.extent()).collect();
        extents.into_iter().collect()
    } else {
        request.loader.cells.to_vec()
    }
}

/// Approaches a forward pass of this shape; every trial is certain to fit by those before it. Where a device tells what it
/// reserves in pages, and no peaks, less is certain: see [`Reserved`](plimsoll_predict::Reserved).
///
/// The features are the complete ones over the axes of the shape.
///
/// # Errors
///
/// As [`sound`].
pub fn sound_forward(
    device: DeviceKind,
    shape: StepShape,
    (predictor, target): (PredictorConfig, Fraction),
    probe: &mut dyn Probe,
    model: &dyn BlankForward,
) -> Result<(), PlanError> {
    let (capacity, platform) = (probe.capacity()?, platform(device, &probe.name()));
    let keys = Keys { recompute: Recompute::NEVER, platform, small_batch: small_batch_regime(device) };
    let exact_peaks = has_exact_peaks(device);
    let predictor = PredictorConfig { features: Features::complete(shape.edges().len()), ..predictor };
    let sounding = Sounding { predictor, target, capacity, keys, exact_peaks, longest: None };
    let aim = Aim { phase: Phase::Infer, shape, smaller: "a shorter edge".to_owned(), skip: "" };
    sounding.sound_forward(&aim, probe, &|shape| model.blank(shape))
}

/// Returns one sample as large as those of training and validation.
fn longest(request: &PlanRequest) -> StepShape {
    let extents = request.loader.cells.iter().copied().chain(request.inference.iter().map(|it| it.extent()));
    StepShape::of(1, extents.reduce(Extent::joined).unwrap_or(Extent::new(1)))
}

fn aim<J: Job>(job: &J, request: &PlanRequest, phase: Phase, shape: StepShape) -> Aim {
    let LoaderConfig { cells, bad_sample, .. } = &request.loader;
    let may_skip = phase == Phase::Train && 1 < cells.len() && *bad_sample == BadSample::Fail;
    let smaller = match phase {
        Phase::Train => job.source().smaller().to_owned(),
        Phase::Infer => format!("less than {}", job.describe_validation(shape.extent())),
    };
    let skip = if may_skip { "; `data.bad_sample = \"skip\"` leaves out what is larger" } else { "" };
    Aim { phase, shape, smaller, skip }
}
