//! The optimizer steps of a training.

use std::borrow::Cow;
use std::time::Instant;

use burn::tensor::Device;
use burn::train::{Learner, LearnerModel, TrainStep};
use plimsoll_probe::open;
use plimsoll_step::{GuardedStep, NextStep, ProgramSteps, Ran, RanPart, StepError, StepOutcome, StepRequest, Stopped};
use plimsoll_train::{MEASURED, device_kind, program_needs};

use crate::attempt::{Brought, attempt};
use crate::batches::StepBatches;
use crate::error::{At, LearnerError};
use crate::figures::{Figures, StepFigures};
use crate::plan::Plan;

/// Runs optimizer steps of a learner under a budget.
pub(crate) struct Steps {
    program: ProgramSteps,
    device: Device,
    figures: Figures,
    /// When the last step ended, or the epoch began.
    since: Instant,
}

/// What the model returned for the micro-batches of a step, and how many samples each had.
pub(crate) type Outputs<M> = Vec<(usize, <M as TrainStep>::Output)>;

impl Steps {
    pub(crate) fn open(device: &Device, plan: Plan, figures: Figures) -> Result<Self, LearnerError> {
        let refused = || LearnerError::Device { device: format!("{device:?}"), reason: MEASURED };
        let kind = device_kind(device).ok_or_else(refused)?;
        let probe = open(kind, plan.capacity)?;
        let known = program_needs(kind, device, &*probe, plan.features)?;
        let program = ProgramSteps::try_new(GuardedStep::new(probe, device.clone()), known, plan.rules)?;
        Ok(Self { program, device: device.clone(), figures, since: Instant::now() })
    }

    /// Begins an epoch, after whatever else has used the device.
    pub(crate) fn begin_epoch(&mut self) {
        self.program.guarded_mut().forget_pages();
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
        let (lengths, units) = (batches.lengths(), batches.units());
        // The same whether or not a training goes on from a checkpoint.
        let number = ((at.epoch as u64) << 32) | at.step as u64;
        let is_whole = batches.are_whole();
        let next = NextStep { number, lengths: &lengths, units, loss_scale: None, is_whole, replicas: None };
        let mut recoveries = 0;
        loop {
            let (model, device) = (learner.model(), &self.device);
            let ran = self.program.attempt(&model, &next, &mut |guarded, request, predict| {
                attempt((guarded, predict), &model, (batches, device), request, at)
            });
            drop(model);
            recoveries += self.program.guarded_mut().take_failures().len();
            let ran = ran.map_err(|stopped| match stopped {
                Stopped::Passes(error) => error,
                Stopped::Step(source) => match source.sample().and_then(|place| batches.sample(place)) {
                    Some((index, length)) => LearnerError::Sample { at, index, length, source },
                    None => LearnerError::Step { at, source },
                },
            })?;
            let committed = self.program.commit(ran, |guarded, gradients, limits| {
                let model = |it: &Learner<M>| Cow::<M>::Owned(it.model());
                guarded.commit_by(learner, model, limits, |learner| {
                    learner.lr_step();
                    learner.optimizer_step(gradients);
                })
            });
            let committed = committed.map_err(|source| LearnerError::Step { at, source })?;
            if let Some((mut ran, reading)) = committed {
                self.program.learn(&mut ran, reading);
                return Ok(self.done(ran, recoveries, at));
            }
        }
    }

    /// Refuses a model whose weights were lost: where a failed allocation is silent, only the next step would show it.
    pub(crate) fn check<M: LearnerModel>(&self, learner: &Learner<M>, at: At) -> Result<(), LearnerError> {
        let guarded = self.program.guarded();
        let failed = |source| LearnerError::Step { at, source };
        if guarded.probe().has_exact_peak() || guarded.weights_are_whole(&learner.model()).map_err(failed)? {
            return Ok(());
        }
        Err(failed(StepError::Damaged))
    }

    /// Says once where several micro-batches change the model, and what the step has shown; returns what the model did.
    fn done<M: LearnerModel>(&mut self, ran: Ran<Brought<M>>, recoveries: usize, at: At) -> Outputs<M> {
        let Ran { request, outcome: StepOutcome { parts, peak, .. }, brought, changes_statistics, .. } = ran;
        if changes_statistics {
            log::warn!(
                "the model changes in its forward pass, as by a batch normalisation: it sees micro-batches instead of whole \
                 steps; `StrategyBuilder::in_one_part` forbids them"
            );
        }
        let duration = self.since.elapsed();
        self.since = Instant::now();
        let among_others = parts.iter().filter_map(|it| it.beside).map(|it| it.upper).max();
        let predicted = brought.predicted.max(among_others);
        self.figures.note(StepFigures { duration, predicted, peak, recoveries, ..of_step(&request, &parts, at) });
        parts.iter().map(|it| it.part.samples.len()).zip(brought.outputs).collect()
    }
}

/// Says what a step was asked to do and in which parts it ran.
fn of_step(request: &StepRequest, parts: &[RanPart], at: At) -> StepFigures {
    let padded = |it: &RanPart| it.part.shape().positions();
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
