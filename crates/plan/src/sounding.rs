//! Soundings: few small steps before the first of a run, so that none is taken of which nothing is known.

use burn::tensor::Tensor;
use plimsoll_predict::{Approach, Keys, PartReading, Phase, Predictor, PredictorConfig, Reach};
use plimsoll_probe::Probe;
use plimsoll_types::{Attempt, Bytes, Extent, Fraction, Observation, Prediction, Recompute, StepShape};

use crate::real::failed;
use crate::trials::forward_trial;
use crate::{CHECKPOINTING_WAS_TRIED, OnPlanned, PlanError, PlanPart, PlannedNeed, RealSteps, Trial, TrialError};

/// Steps of the first trial: the last one is in the steady state, with the optimizer's state, thread pools and packing
/// buffers in place.
const STEPS_AT_FIRST: usize = 3;

/// What has to fit of a shape that is approached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enough {
    /// One sample.
    OneSample,
    /// All samples.
    All,
}

/// A shape that is approached.
#[derive(Clone, Debug)]
pub struct Aim {
    /// Whether gradients are computed.
    pub phase: Phase,
    /// What is to fit.
    pub shape: StepShape,
    /// What would make it smaller, where it is out of reach, such as "a shorter edge".
    pub smaller: String,
    /// How it would be left out, where that is so.
    pub skip: &'static str,
}

/// Approaches shapes by real steps; every one is certain to fit by those before it, but for the first, which is the smallest
/// there is.
#[derive(Clone, Copy, Debug)]
pub struct Sounding {
    /// How needs are bounded.
    pub predictor: PredictorConfig,
    /// The part of the capacity that is aimed at.
    pub target: Fraction,
    /// What there is, and a step may reach.
    pub capacity: Bytes,
    /// What names the kernels that a shape runs.
    pub keys: Keys,
    /// Whether the device tells exact peaks, and not merely what its pages hold.
    pub exact_peaks: bool,
    /// One sample as large along each axis as any of all data, those that are held out included, where they have lengths.
    pub longest: Option<StepShape>,
}

impl Sounding {
    /// Approaches shapes one after the other, by blank steps, and returns what was read, whatever came of it.
    ///
    /// # Errors
    ///
    /// [`PlanError::OutOfReach`] where not enough is certain to fit into the capacity, [`PlanError::SmallestDoesNotFit`]
    /// where all has to fit and there is no room for any step, [`PlanError::Step`] when a step fails for another reason.
    pub fn sound(
        &self,
        aims: &[Aim],
        enough: Enough,
        steps: &mut dyn RealSteps,
        progress: OnPlanned<'_>,
    ) -> (Vec<PlannedNeed>, Result<(), PlanError>) {
        let mut needs = Vec::new();
        let sounded = self.sound_into(&mut needs, (aims, enough), steps, progress);
        (needs, sounded)
    }

    fn sound_into(
        &self,
        needs: &mut Vec<PlannedNeed>,
        (aims, enough): (&[Aim], Enough),
        steps: &mut dyn RealSteps,
        progress: OnPlanned<'_>,
    ) -> Result<(), PlanError> {
        let Some(first) = aims.first().map(|it| it.shape) else { return Ok(()) };
        let (capacity, budget) = (self.capacity, self.capacity.scale(self.target));
        let resident = steps.resident().map_err(|error| failed(first, error))?;
        if budget <= resident && enough == Enough::All {
            let advice = "a larger capacity or a smaller model would help".to_owned();
            return Err(PlanError::SmallestDoesNotFit { shape: first, needed: resident, budget, capacity, advice });
        }
        if budget <= resident {
            // There is no room for any step, and the start of the run says so.
            return Ok(());
        }
        for aim in aims {
            let mut n_done = 0;
            let mut run = |shape| {
                progress(PlanPart::Shapes(aim.phase), n_done, n_done + 1);
                n_done += 1;
                match aim.phase {
                    Phase::Train => steps.blank(shape),
                    Phase::Infer => steps.infer(shape),
                }
            };
            let (read, ended) = self.approach(aim, &mut run);
            needs.extend(read.into_iter().map(|it| self.need(aim.phase, it.part)));
            match ended {
                Err(PlanError::OutOfReach { largest: (largest, _), .. })
                    if enough == Enough::OneSample && largest.extent() == aim.shape.extent() => {}
                ended => ended?,
            }
        }
        Ok(())
    }

    /// Returns whose activations are to be recomputed: those of the shortest of these extents, along their first axis, of which
    /// so many samples are not certain to fit into the budget as they are, and of all longer ones.
    ///
    /// # Errors
    ///
    /// [`PlanError::Predict`] when a reading makes no sense.
    pub fn recompute(&self, read: &[PlannedNeed], n_samples: u32, extents: &[Extent]) -> Result<Recompute, PlanError> {
        let (mut predictor, mut resident) = (Predictor::try_new(self.predictor)?, Bytes::ZERO);
        for it in read.iter().filter(|it| it.phase == Phase::Train) {
            resident = it.resident.unwrap_or_default();
            let part = PartReading {
                nodes: it.nodes,
                packed: it.packed,
                ..Observation { shape: it.shape, resident, peak: it.expected }.into()
            };
            predictor.observe(self.keys.key(it.phase, it.shape), part)?;
        }
        let budget = self.capacity.scale(self.target);
        let fits = |extent: &Extent| {
            let shape = StepShape::of(n_samples, *extent);
            let predicted = predictor.predict(self.keys.key(Phase::Train, shape), shape, resident);
            predicted.is_some_and(|it| it.upper <= budget)
        };
        let misfit = extents.iter().filter(|it| !fits(it)).map(|it| it.edge()).min();
        let fitting = extents.iter().map(|it| it.edge()).filter(|it| misfit.is_none_or(|misfit| *it < misfit));
        Ok(Recompute::above(fitting.max()))
    }

    fn need(&self, phase: Phase, PartReading { shape, before, peak, nodes, packed }: PartReading) -> PlannedNeed {
        let (expected, largest, resident) = (peak.bytes(), Bytes::ZERO, Some(before));
        let checkpointing = self.keys.key(phase, shape).checkpointing;
        PlannedNeed { phase, checkpointing, shape, expected, upper: expected, largest, resident, nodes, packed }
    }

    /// Approaches a forward pass of this shape. Where a device tells what it reserves in pages, and no peaks, less is
    /// certain: see [`Reserved`](plimsoll_predict::Reserved).
    ///
    /// # Errors
    ///
    /// As [`Self::sound`] where all has to fit.
    pub fn sound_forward(
        &self,
        aim: &Aim,
        probe: &mut dyn Probe,
        forward: &dyn Fn(StepShape) -> Tensor<1>,
    ) -> Result<(), PlanError> {
        self.approach(aim, &mut |shape| forward_trial(probe, self.capacity, shape, || forward(shape))).1
    }

    /// Runs trials up to a shape, and returns what each read, and whether it was reached.
    fn approach(&self, aim: &Aim, run: RunTrial<'_>) -> (Vec<Read>, Result<(), PlanError>) {
        let mut reads = Vec::new();
        let reached = self.go_up(aim, &mut reads, run);
        (reads, reached)
    }

    fn go_up(&self, aim: &Aim, reads: &mut Vec<Read>, run: RunTrial<'_>) -> Result<(), PlanError> {
        let (phase, shape) = (aim.phase, aim.shape);
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
                    return Err(self.out_of_reach(aim, reads.last(), predict(shape), of_all));
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
                return Err(self.out_of_reach(aim, reads.last(), predict(shape), of_all));
            }
            approach.on_trial_done(next);
            reads.push(read);
        }
    }

    fn out_of_reach(
        &self,
        aim: &Aim,
        largest: Option<&Read>,
        predicted: Option<Prediction>,
        upper_of_all: Option<Bytes>,
    ) -> PlanError {
        let Aim { phase, shape, ref smaller, skip } = *aim;
        let largest = largest.map_or((shape, Bytes::ZERO), |it| (it.part.shape, it.peak));
        let needed = predicted.map_or(largest.1, |it| it.expected);
        let upper = predicted.map(|it| it.upper);
        let capacity = match upper.max(upper_of_all) {
            // A bound that follows from much smaller steps is far above what is needed.
            Some(upper) if needed.saturating_mul(2) < upper => {
                format!("a capacity of {}, which is certain to do where less may", self.enough(upper))
            }
            Some(upper) => format!("a capacity of {}, which is certain to do", self.enough(upper)),
            None => format!("a capacity well above {needed}"),
        };
        let advice = self.advice(phase, &[&capacity, smaller], "gradient checkpointing") + skip;
        PlanError::OutOfReach { phase, shape, largest, needed, upper, capacity: self.capacity, advice }
    }

    /// Returns a capacity of which the part that is aimed at is enough, rounded up as it is shown.
    fn enough(&self, needed: Bytes) -> Bytes {
        Bytes::from_f64_ceil(needed.as_f64() / self.target.get()).shown_up()
    }

    fn smallest_does_not_fit(&self, phase: Phase, Read { part: PartReading { shape, .. }, peak }: Read) -> PlanError {
        let (capacity, budget) = (self.capacity, self.capacity.scale(self.target));
        let is_longest = self.longest.is_none_or(|longest| shape.extent().covers(longest.extent()));
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
            Err(TrialError::OutOfMemory(Attempt { resident, peak: Some(peak), page, nodes, .. })) => {
                let part = PartReading::of(Observation { shape, resident, peak }, self.exact_peaks, page);
                Ok(Read { part: part.with_nodes(nodes), peak })
            }
            Err(error) => Err(failed(shape, error)),
        }
    }

    /// Says what would help; what was tried would not.
    fn advice(&self, phase: Phase, ways: &[&str], sparing: &str) -> String {
        let mut ways = ways.to_vec();
        let is_tried = phase == Phase::Train && self.keys.recompute.is_on_anywhere();
        if phase == Phase::Train && !is_tried {
            ways.push(sparing);
        }
        let tried = if is_tried { CHECKPOINTING_WAS_TRIED } else { "" };
        format!("{tried}any of these would help: {}, or a smaller model", ways.join(", "))
    }
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

#[cfg(test)]
mod tests {
    use plimsoll_predict::Platform;

    use super::*;

    fn sounding(capacity: Bytes, recompute: Recompute) -> Sounding {
        let keys = Keys { recompute, platform: Platform::default(), small_batch: 0 };
        let (predictor, target) = (PredictorConfig::default(), Fraction::ONE);
        Sounding { predictor, target, capacity, keys, exact_peaks: true, longest: None }
    }

    fn aim(phase: Phase, shape: StepShape) -> Aim {
        Aim { phase, shape, smaller: "a shorter edge".to_owned(), skip: "" }
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
        let (reads, reached) =
            sounding(Bytes::mib(45), Recompute::NEVER).approach(&aim(Phase::Train, target), &mut run);
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
        let mut reach = |edge| {
            sounding(capacity, Recompute::NEVER)
                .approach(&aim(Phase::Train, StepShape::new(1, edge)), &mut run)
                .1
                .map(drop)
        };
        reach(30).unwrap();
        let error = reach(47).unwrap_err();
        assert!(matches!(error, PlanError::OutOfReach { largest: (largest, _), .. } if largest.edge() < 35), "{error}");
    }

    #[test]
    fn what_was_tried_is_said_and_not_advised() {
        let mut run = |shape| {
            Err(TrialError::OutOfMemory(Attempt { peak: Some(Bytes::mib(50)), ..Attempt::new(shape, Bytes::ZERO) }))
        };
        let (never, always) = (Recompute::NEVER, Recompute::ALWAYS);
        for (recompute, phase, is_said, is_advised) in [
            (never, Phase::Train, false, true),
            (always, Phase::Train, true, false),
            (always, Phase::Infer, false, false),
        ] {
            let sounding = sounding(Bytes::mib(45), recompute);
            let error = sounding.approach(&aim(phase, StepShape::new(1, 16)), &mut run).1.unwrap_err().to_string();
            assert_eq!(error.contains("gradient checkpointing was tried"), is_said, "{error}");
            assert_eq!(error.contains("`memory.gradient_checkpointing = \"on\"`"), is_advised, "{error}");
        }
    }
}
