//! Soundings: few small steps before the first of a run, so that none is taken of which nothing is known.

use plimsoll_plan::{CHECKPOINTING_WAS_TRIED, PlanError, PlannedNeed};
use plimsoll_predict::{Approach, PartReading, Phase, Predictor, PredictorConfig, Reach};
use plimsoll_probe::{DeviceKind, Probe};
use plimsoll_types::{Attempt, Bytes, Fraction, Observation, Prediction, StepShape};

use super::{BlankForward, OnPlanned, PlanRequest, Planning, failed};
use crate::controller::Keys;
use crate::device::{has_exact_peaks, open_device, platform, small_batch_regime};
use crate::find::OpenProbe;
use crate::job::Job;
use crate::loader::{BadSample, LoaderConfig};
use crate::source::Source as _;
use crate::trial::{Trial, TrialError, forward_trial};

/// Steps of the first trial: the last one is in the steady state, with the optimizer's state, thread pools and packing
/// buffers in place.
const STEPS_AT_FIRST: usize = 3;

/// Approaches what a run on a device without pools begins with: the largest of its `first` micro-batches, and one sample
/// of the longest edge of a validation. Every trial is certain to fit by those before it; the first is the smallest there
/// is.
///
/// Of a first micro-batch of several samples, one has to fit: a step runs in as many as are certain.
///
/// Returns what was read, for [`ControllerConfig::planned`](crate::ControllerConfig::planned).
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
    first: StepShape,
    open_probe: OpenProbe<'_>,
    progress: OnPlanned<'_>,
) -> Result<Vec<PlannedNeed>, PlanError> {
    let longest = request.inference.iter().map(|it| it.edge()).max();
    let validation = longest.map(|edge| (Phase::Infer, StepShape::new(1, edge)));
    let work: Vec<_> = [(Phase::Train, first)].into_iter().chain(validation).collect();
    sound_all(job, request, &work, Enough::OneSample, open_probe, progress)
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
    let read = sound_all(job, request, &[work], Enough::All, open_probe, progress)?;
    Ok(read.into_iter().find(|it| (it.phase, it.shape) == work))
}

/// What has to fit of a shape that is approached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Enough {
    /// One sample.
    OneSample,
    /// All samples.
    All,
}

/// Approaches shapes one after the other, and returns what was read.
fn sound_all<J: Job>(
    job: &J,
    request: &PlanRequest,
    work: &[(Phase, StepShape)],
    enough: Enough,
    open_probe: OpenProbe<'_>,
    progress: OnPlanned<'_>,
) -> Result<Vec<PlannedNeed>, PlanError> {
    let Some((_, first)) = work.first().copied() else { return Ok(Vec::new()) };
    let capacity = open_probe()?.capacity()?;
    let device = open_device(request.device, request.checkpointing).map_err(|error| error.0)?;
    let platform = platform(request.device, &super::device_name(request.device)?);
    let planning = Planning { job, request, device, platform, open_probe };
    let (checkpointing, small_batch) = (request.checkpointing, small_batch_regime(request.device));
    let keys = Keys { checkpointing, platform, small_batch };
    let mut trials = planning.trials()?;
    let resident = trials.resident().map_err(|error| failed(first, error))?;
    let budget = capacity.scale(request.target);
    if budget <= resident && enough == Enough::All {
        let advice = "a larger capacity or a smaller model would help".to_owned();
        return Err(PlanError::SmallestDoesNotFit { shape: first, needed: resident, budget, capacity, advice });
    }
    if budget <= resident {
        // There is no room for any step, and the start of the run says so.
        return Ok(Vec::new());
    }
    let (predictor, target) = (PredictorConfig { features: job.features(), ..request.predictor }, request.target);
    let exact_peaks = has_exact_peaks(request.device);
    let mut needs = Vec::new();
    for (phase, shape) in work.iter().copied() {
        let smaller = smaller(job, request, phase, shape);
        let longest = (!request.loader.edges.is_empty()).then(|| longest(request));
        let sounding = Sounding { predictor, target, capacity, keys, exact_peaks, smaller, longest };
        let mut n_done = 0;
        let mut run = |shape| {
            progress(phase, n_done, n_done + 1);
            n_done += 1;
            match phase {
                Phase::Train => trials.blank(shape),
                Phase::Infer => trials.infer(shape),
            }
        };
        let read = match sounding.approach(phase, shape, &mut run) {
            (read, Err(PlanError::OutOfReach { largest: (largest, _), .. }))
                if enough == Enough::OneSample && largest.edge() == shape.edge() =>
            {
                read
            }
            (read, ended) => ended.map(|()| read)?,
        };
        needs.extend(read.into_iter().map(|it| need(phase, it.part)));
    }
    Ok(needs)
}

/// Approaches a forward pass of this shape; every trial is certain to fit by those before it. Where a device tells what it
/// reserves in pages, and no peaks, less is certain: see [`Reserved`](plimsoll_predict::Reserved).
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
    let keys = Keys { checkpointing: false, platform, small_batch: small_batch_regime(device) };
    let mut forward = |shape| forward_trial(probe, capacity, shape, || model.blank(shape));
    let smaller = Smaller { what: "a shorter edge".to_owned(), skip: "" };
    let exact_peaks = has_exact_peaks(device);
    let sounding = Sounding { predictor, target, capacity, keys, exact_peaks, smaller, longest: None };
    sounding.approach(Phase::Infer, shape, &mut forward).1
}

/// What a trial showed.
#[derive(Clone, Copy, Debug)]
struct Read {
    /// What is learnt of it.
    part: PartReading,
    /// What it reached.
    peak: Bytes,
}

/// Runs one step or forward pass of a shape.
type RunTrial<'a> = &'a mut dyn FnMut(StepShape) -> Result<Trial, TrialError>;

struct Sounding {
    predictor: PredictorConfig,
    target: Fraction,
    capacity: Bytes,
    keys: Keys,
    /// Whether the device tells exact peaks, and not merely what its pages hold.
    exact_peaks: bool,
    smaller: Smaller,
    /// One sample of the longest edge of all data, those that are held out included, where they have lengths.
    longest: Option<StepShape>,
}

/// What would make smaller what is out of reach.
struct Smaller {
    what: String,
    /// How it would be left out, where that is so.
    skip: &'static str,
}

/// Returns one sample of the longest edge of training and validation.
fn longest(request: &PlanRequest) -> StepShape {
    let edges = request.loader.edges.iter().copied().chain(request.inference.iter().map(|it| it.edge()));
    StepShape::new(1, edges.max().unwrap_or(1))
}

fn smaller<J: Job>(job: &J, request: &PlanRequest, phase: Phase, shape: StepShape) -> Smaller {
    let LoaderConfig { edges, bad_sample, .. } = &request.loader;
    let may_skip = phase == Phase::Train && !edges.is_empty() && *bad_sample == BadSample::Fail;
    let what = match phase {
        Phase::Train => job.source().smaller().to_owned(),
        Phase::Infer => format!("less than {}", job.describe_validation(shape.edge())),
    };
    Smaller { what, skip: if may_skip { "; `data.bad_sample = \"skip\"` leaves out what is longer" } else { "" } }
}

impl Sounding {
    /// Runs trials up to a shape, and returns what each read, and whether it was reached.
    fn approach(&self, phase: Phase, shape: StepShape, run: RunTrial<'_>) -> (Vec<Read>, Result<(), PlanError>) {
        let mut reads = Vec::new();
        let reached = self.go_up(phase, shape, &mut reads, run);
        (reads, reached)
    }

    fn go_up(&self, phase: Phase, shape: StepShape, reads: &mut Vec<Read>, run: RunTrial<'_>) -> Result<(), PlanError> {
        let mut predictor = Predictor::try_new(self.predictor)?;
        let mut approach = Approach::new(Approach::SHORTEST, shape, self.capacity);
        let keys = self.keys;
        loop {
            let resident = reads.last().map_or(Bytes::ZERO, |it| it.part.before);
            let predict = |shape| predictor.predict(keys.key(phase, shape), shape, resident);
            let next = match approach.next(predict) {
                Reach::Measure(shape) => shape,
                Reach::Beyond { .. } => {
                    let of_all = self.longest.and_then(predict).map(|it| it.upper);
                    return Err(self.out_of_reach(phase, shape, reads.last(), predict(shape), of_all));
                }
                Reach::Arrived => return Ok(()),
            };
            let read = self.measure(next, if reads.is_empty() { STEPS_AT_FIRST } else { 1 }, run)?;
            if self.capacity < read.peak && reads.is_empty() {
                return Err(self.smallest_does_not_fit(phase, read));
            }
            predictor.observe_step(&[(keys.key(phase, next), read.part)], Bytes::ZERO)?;
            if self.capacity < read.peak {
                let predict = |shape| predictor.predict(keys.key(phase, shape), shape, read.part.before);
                let of_all = self.longest.and_then(predict).map(|it| it.upper);
                return Err(self.out_of_reach(phase, shape, reads.last(), predict(shape), of_all));
            }
            approach.on_trial_done(next);
            reads.push(read);
        }
    }

    fn out_of_reach(
        &self,
        phase: Phase,
        shape: StepShape,
        largest: Option<&Read>,
        predicted: Option<Prediction>,
        upper_of_all: Option<Bytes>,
    ) -> PlanError {
        let largest = largest.map_or((shape, Bytes::ZERO), |it| (it.part.shape, it.peak));
        let needed = predicted.map_or(largest.1, |it| it.expected);
        let Smaller { what, skip } = &self.smaller;
        let upper = predicted.map(|it| it.upper);
        let capacity = match upper.max(upper_of_all) {
            // A bound that follows from much smaller steps is far above what is needed.
            Some(upper) if needed.saturating_mul(2) < upper => {
                format!("a capacity of {}, which is certain to do where less may", self.enough(upper))
            }
            Some(upper) => format!("a capacity of {}, which is certain to do", self.enough(upper)),
            None => format!("a capacity well above {needed}"),
        };
        let advice = self.advice(phase, &[&capacity, what], "gradient checkpointing") + skip;
        PlanError::OutOfReach { phase, shape, largest, needed, upper, capacity: self.capacity, advice }
    }

    /// Returns a capacity of which the part that is aimed at is enough, rounded up as it is shown.
    fn enough(&self, needed: Bytes) -> Bytes {
        Bytes::from_f64_ceil(needed.as_f64() / self.target.get()).shown_up()
    }

    fn smallest_does_not_fit(&self, phase: Phase, Read { part: PartReading { shape, .. }, peak }: Read) -> PlanError {
        let (capacity, budget) = (self.capacity, self.capacity.scale(self.target));
        let is_longest = self.longest.is_none_or(|longest| longest.edge() <= shape.edge());
        let more = if is_longest { "" } else { " for this step, and more for longer samples" };
        let enough = format!("a capacity of {}{more}", self.enough(peak));
        let advice = self.advice(phase, &[&enough], "`memory.gradient_checkpointing = \"on\"`");
        PlanError::SmallestDoesNotFit { shape, needed: peak, budget, capacity, advice }
    }

    /// Runs trials of a shape, and returns what the last read: of one that did not fit, what it would have taken.
    fn measure(&self, shape: StepShape, n: usize, run: RunTrial<'_>) -> Result<Read, PlanError> {
        let ran = (1..n).fold(run(shape), |ran, _| ran.and_then(|_| run(shape)));
        match ran.map(Trial::steady) {
            Ok(trial) => Ok(Read { part: trial.part, peak: trial.peak }),
            Err(TrialError::OutOfMemory(Attempt { resident, peak: Some(peak), nodes, .. })) => {
                let part = PartReading::of(Observation { shape, resident, peak }, self.exact_peaks);
                Ok(Read { part: part.with_nodes(nodes), peak })
            }
            Err(error) => Err(failed(shape, error)),
        }
    }

    /// Says what would help; what was tried would not.
    fn advice(&self, phase: Phase, ways: &[&str], sparing: &str) -> String {
        let mut ways = ways.to_vec();
        let is_tried = phase == Phase::Train && self.keys.checkpointing;
        if phase == Phase::Train && !is_tried {
            ways.push(sparing);
        }
        let tried = if is_tried { CHECKPOINTING_WAS_TRIED } else { "" };
        format!("{tried}any of these would help: {}, or a smaller model", ways.join(", "))
    }
}

fn need(phase: Phase, PartReading { shape, before, peak, nodes }: PartReading) -> PlannedNeed {
    let (expected, largest, resident) = (peak.bytes(), Bytes::ZERO, Some(before));
    PlannedNeed { phase, shape, expected, upper: expected, largest, resident, nodes }
}

#[cfg(test)]
mod tests {
    use plimsoll_predict::Platform;

    use super::*;

    fn sounding(capacity: Bytes, checkpointing: bool) -> Sounding {
        let keys = Keys { checkpointing, platform: Platform::default(), small_batch: 0 };
        let smaller = Smaller { what: "a shorter edge".to_owned(), skip: "" };
        let (predictor, target) = (PredictorConfig::default(), Fraction::ONE);
        Sounding { predictor, target, capacity, keys, exact_peaks: true, smaller, longest: None }
    }

    #[test]
    fn steps_that_accumulate_gradients_teach_what_a_part_needs() {
        let (base, gradients) = (Bytes::mib(10), Bytes::mib(16));
        let found = base.saturating_add(gradients);
        let peak = found.saturating_add(gradients);
        let mut run = |shape| {
            let part = Observation { shape, resident: found, peak }.into();
            Ok(Trial { shape, resident: base, in_use: base, reserved: peak, peak, part, seconds: 0.0 })
        };
        // On top of 26 MiB an edge that is a sixteenth longer needs at most an eighth more than 16 MiB; on top of 10 MiB, at
        // most an eighth more than 32 MiB, which is 46.5 MiB.
        let target = StepShape::new(1, 17);
        let (reads, reached) = sounding(Bytes::mib(45), false).approach(Phase::Train, target, &mut run);
        reached.unwrap();
        assert_eq!(reads.iter().map(|it| it.part.shape).collect::<Vec<_>>(), [StepShape::new(1, 16), target]);
    }

    #[test]
    fn what_fits_only_without_the_gradients_of_other_parts_is_out_of_reach() {
        let (base, gradients) = (Bytes::mib(10), Bytes::mib(16));
        let found = base.saturating_add(gradients);
        let capacity = Bytes::mib(60);
        // One more for each position of an edge: the longest takes 47 MiB, and on top of 10 MiB that is less than there is.
        let mut run = |shape: StepShape| {
            let peak = found.saturating_add(Bytes::mib(u64::from(shape.edge())));
            if capacity < peak {
                let attempt = Attempt { peak: Some(peak), ..Attempt::new(shape, found) };
                return Err(TrialError::OutOfMemory(attempt));
            }
            let part = Observation { shape, resident: found, peak }.into();
            Ok(Trial { shape, resident: base, in_use: base, reserved: peak, peak, part, seconds: 0.0 })
        };
        let mut reach =
            |edge| sounding(capacity, false).approach(Phase::Train, StepShape::new(1, edge), &mut run).1.map(drop);
        reach(30).unwrap();
        let error = reach(47).unwrap_err();
        assert!(matches!(error, PlanError::OutOfReach { largest: (largest, _), .. } if largest.edge() < 35), "{error}");
    }

    #[test]
    fn what_was_tried_is_said_and_not_advised() {
        let mut run = |shape| {
            Err(TrialError::OutOfMemory(Attempt { peak: Some(Bytes::mib(50)), ..Attempt::new(shape, Bytes::ZERO) }))
        };
        for (checkpointing, phase, is_said, is_advised) in
            [(false, Phase::Train, false, true), (true, Phase::Train, true, false), (true, Phase::Infer, false, false)]
        {
            let sounding = sounding(Bytes::mib(45), checkpointing);
            let error = sounding.approach(phase, StepShape::new(1, 16), &mut run).1.unwrap_err().to_string();
            assert_eq!(error.contains("gradient checkpointing was tried"), is_said, "{error}");
            assert_eq!(error.contains("`memory.gradient_checkpointing = \"on\"`"), is_advised, "{error}");
        }
    }
}
