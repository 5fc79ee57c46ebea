//! The optimizer steps of a training.

use std::time::{Duration, Instant};

use burn::tensor::Device;
use burn::train::{Learner, LearnerModel, TrainStep};
use plimsoll_probe::open;
use plimsoll_step::{
    Commit, GuardedStep, IsWhole, OptimizerRecovery, ProgramNeeds, RanPart, Rescale, Room, StepError, StepOutcome,
    StepPart, StepRequest, gradient_bytes,
};
use plimsoll_train::{device_kind, program_needs};
use plimsoll_types::{Budget, Bytes};

use crate::attempt::{Attempted, attempt};
use crate::batches::StepBatches;
use crate::builder::Plan;
use crate::error::{At, LearnerError};
use crate::figures::{Figures, StepFigures};

/// Runs optimizer steps of a learner under a budget.
pub(crate) struct Steps {
    guarded: GuardedStep,
    known: ProgramNeeds,
    device: Device,
    plan: Plan,
    figures: Figures,
    /// When the last step ended, or the epoch began.
    since: Instant,
    capacity: Option<(Instant, Bytes)>,
    has_sounded: bool,
    has_looked: bool,
}

/// How long a reading of the capacity stands: it costs 50 µs on Linux, which shows in steps of a few milliseconds.
const CAPACITY_AGE: Duration = Duration::from_millis(50);

/// What the model returned for the micro-batches of a step, and how many samples each had.
pub(crate) type Outputs<M> = Vec<(usize, <M as TrainStep>::Output)>;

impl Steps {
    pub(crate) fn open(device: &Device, plan: Plan, figures: Figures) -> Result<Self, LearnerError> {
        let reason = "a CPU by Flex, Vulkan or CUDA is measured, where this build has its feature";
        let refused = || LearnerError::Device { device: format!("{device:?}"), reason };
        let kind = device_kind(device).ok_or_else(refused)?;
        let probe = open(kind, plan.capacity)?;
        let known = program_needs(kind, device, &*probe)?;
        let guarded = GuardedStep::new(probe, device.clone());
        let (device, since) = (device.clone(), Instant::now());
        Ok(Self { guarded, known, device, plan, figures, since, capacity: None, has_sounded: false, has_looked: false })
    }

    /// Begins an epoch, after whatever else has used the device.
    pub(crate) fn begin_epoch(&mut self) {
        self.guarded.forget_pages();
        self.since = Instant::now();
    }

    /// Runs one optimizer step.
    ///
    /// After an error nothing has happened to the learner, unless the optimizer's step itself ran out of memory and no copy
    /// was kept.
    pub(crate) fn run<M: LearnerModel>(
        &mut self,
        learner: &mut Learner<M>,
        batches: &StepBatches<'_, <M as TrainStep>::Input>,
        at: At,
    ) -> Result<Outputs<M>, LearnerError> {
        let failed = |source| LearnerError::Step { at, source };
        let model = learner.model();
        self.sound(&model, batches, at)?;
        let gradients = gradient_bytes(&model);
        let request = self.request(batches, gradients).map_err(failed)?;
        let attempted = self.attempt(&model, batches, &request, at);
        let failures = self.guarded.take_failures();
        self.known.learn_failures(&failures, attempted.as_ref().map_or(&[], |it| &it.outcome.parts));
        let Attempted { mut outcome, outputs, predicted } = attempted?;
        let mut parts = std::mem::take(&mut outcome.parts);
        self.look(&model, parts.len()).inspect_err(|_| self.guarded.discard(&model)).map_err(failed)?;
        drop(model);
        let peak = self.commit(learner, outcome, &mut parts, gradients).map_err(failed)?;
        let figures = StepFigures { predicted, peak, recoveries: failures.len(), ..of_step(&request, &parts, at) };
        self.figures.note(StepFigures { duration: self.since.elapsed(), ..figures });
        self.since = Instant::now();
        Ok(parts.iter().map(|it| it.part.samples.len()).zip(outputs).collect())
    }

    /// Runs some of the longest samples where nothing is known yet of as long ones, and keeps what they need.
    fn sound<M: LearnerModel>(
        &mut self,
        model: &M,
        batches: &StepBatches<'_, <M as TrainStep>::Input>,
        at: At,
    ) -> Result<(), LearnerError> {
        let failed = |source| LearnerError::Step { at, source };
        let StepBatches::Samples { lengths, .. } = batches else { return Ok(()) };
        let Plan { micro_batch: None, may_divide: true, .. } = self.plan else { return Ok(()) };
        let is_first = !std::mem::replace(&mut self.has_sounded, true);
        for n_done in 0.. {
            let (resident, budget) = (self.guarded.read().map_err(failed)?.in_use, self.budget().map_err(failed)?);
            let room = Room { resident, gradients: Bytes::ZERO, budget: budget.budget };
            let Some(part) = self.known.sounding(n_done, lengths, is_first, room) else { break };
            let request = self.of_parts(vec![part.clone()], &lengths[part.samples], budget);
            let sounded = self.attempt(model, batches, &request, at);
            self.known.learn_failures(&self.guarded.take_failures(), &[]);
            let Attempted { outcome, outputs, .. } = match sounded {
                Ok(sounded) => sounded,
                // The step itself says what is to be said of memory.
                Err(LearnerError::Step { .. } | LearnerError::Sample { .. }) => return Ok(()),
                Err(error) => return Err(error),
            };
            let StepOutcome { parts, gradients, .. } = outcome;
            drop((outputs, gradients));
            self.guarded.discard(model);
            let kept = self.guarded.read().map_err(failed)?.in_use.saturating_sub(resident);
            self.known.learn(&parts, kept);
        }
        Ok(())
    }

    fn attempt<M: LearnerModel>(
        &mut self,
        model: &M,
        batches: &StepBatches<'_, <M as TrainStep>::Input>,
        request: &StepRequest,
        at: At,
    ) -> Result<Attempted<M>, LearnerError> {
        if let Some(seed) = self.plan.seed {
            // The same whether or not a training goes on from a checkpoint.
            self.guarded.seed_step(seed, ((at.epoch as u64) << 32) | at.step as u64);
        }
        attempt((&mut self.guarded, &self.known), model, (batches, &self.device), request, at)
    }

    /// Says once where the forward passes of several micro-batches change the model.
    fn look<M: LearnerModel>(&mut self, model: &M, n_parts: usize) -> Result<(), StepError> {
        if self.has_looked || n_parts < 2 {
            return Ok(());
        }
        self.has_looked = true;
        if self.guarded.has_changed(model)? {
            log::warn!(
                "the model changes in its forward pass, as by a batch normalisation: it sees micro-batches instead of whole \
                 steps; `StrategyBuilder::in_one_part` forbids them"
            );
        }
        Ok(())
    }

    /// Reads the capacity, which others may change at any time, unless that was just done.
    fn budget(&mut self) -> Result<Budget, StepError> {
        let known = self.capacity.filter(|(read, _)| read.elapsed() < CAPACITY_AGE);
        let capacity = known.map_or_else(|| self.guarded.probe().capacity(), |(_, capacity)| Ok(capacity))?;
        if known.is_none() {
            self.capacity = Some((Instant::now(), capacity));
        }
        Ok(Budget { capacity, budget: capacity.scale(self.plan.target) })
    }

    fn request<O: 'static>(
        &mut self,
        batches: &StepBatches<'_, O>,
        gradients: Bytes,
    ) -> Result<StepRequest, StepError> {
        let budget = self.budget()?;
        let (lengths, micro_batch) = match batches {
            StepBatches::Samples { lengths, .. } if self.plan.may_divide => (lengths.clone(), self.plan.micro_batch),
            StepBatches::Samples { lengths, .. } => (lengths.clone(), Some(u32::MAX)),
            StepBatches::Whole { n_samples, .. } => (vec![1; *n_samples], Some(u32::MAX)),
        };
        let room = Room { resident: self.guarded.read()?.in_use, gradients, budget: budget.budget };
        let request = self.of_parts(self.known.divide(&lengths, micro_batch, room), &lengths, budget);
        Ok(StepRequest { may_halve: self.plan.may_divide && !batches.are_whole(), ..request })
    }

    fn of_parts(&self, micro_batches: Vec<StepPart>, lengths: &[u32], budget: Budget) -> StepRequest {
        let unit = |length: &u32| if self.plan.by_length { u64::from(*length) } else { 1 };
        StepRequest {
            micro_batches,
            units: lengths.iter().map(unit).collect(),
            lengths: lengths.to_vec(),
            task_probes: Vec::new(),
            budget,
            rescale: Rescale { max_norm: self.plan.max_norm, ..Rescale::default() },
            may_halve: true,
        }
    }

    /// Lets schedule and optimizer step; returns the high-water mark of the whole step.
    fn commit<M: LearnerModel>(
        &mut self,
        learner: &mut Learner<M>,
        outcome: StepOutcome,
        parts: &mut [RanPart],
        expected: Bytes,
    ) -> Result<Bytes, StepError> {
        let StepOutcome { gradients, in_use, peak, .. } = outcome;
        let before = self.guarded.read().inspect_err(|_| self.guarded.discard(&learner.model()))?.in_use;
        let kept = (self.plan.recovery == OptimizerRecovery::Keep).then(|| learner.clone());
        let update = |learner: &mut Learner<M>| {
            learner.lr_step();
            learner.optimizer_step(gradients);
        };
        let is_whole = |step: &GuardedStep, learner: &Learner<M>| step.weights_are_whole(&learner.model());
        let is_whole: Option<IsWhole<'_, _>> = if kept.is_some() { Some(&is_whole) } else { None };
        // Where there is no way back, an update that is there is good, whatever it took; the next step knows it.
        let capacity = if kept.is_some() { self.budget()?.capacity } else { Bytes::MAX };
        let reading = match self.guarded.commit_by(learner, capacity, update, is_whole) {
            Ok(Commit::Done { reading, .. }) => reading,
            failed => return Err(self.undone(learner, kept, failed.err())),
        };
        let had_copy = kept.is_some();
        drop(kept);
        let after = if had_copy { self.guarded.read()?.in_use } else { reading.in_use };
        parts.last_mut().into_iter().for_each(|it| it.follow(in_use, reading.peak));
        // What the model returned is still there, and the gradients are not any more.
        self.known.learn(parts, after.saturating_add(expected).saturating_sub(before));
        Ok(peak.max(reading.peak))
    }

    /// Puts the learner back where there is a copy, and says why its optimizer did not step.
    fn undone<M: LearnerModel>(
        &mut self,
        learner: &mut Learner<M>,
        kept: Option<Learner<M>>,
        error: Option<StepError>,
    ) -> StepError {
        let Some(kept) = kept else { return error.unwrap_or(StepError::Damaged) };
        *learner = kept;
        self.guarded.discard(&learner.model());
        let error = error.unwrap_or_else(|| StepError::OutOfMemory("the optimizer's step".to_owned()));
        self.guarded.give_back().err().unwrap_or(error)
    }
}

/// Says what a step was asked to do and in which parts it ran.
fn of_step(request: &StepRequest, parts: &[RanPart], at: At) -> StepFigures {
    let padded = |it: &RanPart| it.part.samples.len() as u64 * u64::from(it.part.edge);
    StepFigures {
        iteration: at.step,
        n_samples: request.units.len(),
        n_parts: parts.len(),
        positions: request.lengths.iter().map(|it| u64::from(*it)).sum(),
        padded: parts.iter().map(padded).sum(),
        budget: request.budget.budget,
        ..StepFigures::default()
    }
}
