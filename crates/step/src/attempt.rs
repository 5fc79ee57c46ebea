//! The passes of a step that either happens with exactly its samples, or does not happen.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Instant;

use burn::module::Module;
use plimsoll_guard::{Guard, Happened, Now};

use crate::attempts::Attempts;
use crate::error::StepError;
use crate::guarded::GuardedStep;
use crate::issue::Passed;
use crate::outcome::StepOutcome;
use crate::passes::{MeanGradients, MeanLoss, Passes, PredictShape, SharedMeanLoss};
use crate::replicas::Replicas;
use crate::request::{StepPart, StepRequest};
use crate::running::RunningStates;

impl GuardedStep {
    /// Runs all samples of a step, accumulates their gradients and checks them.
    ///
    /// `mean_loss` takes a range of the step's samples, all of one extent, and returns their mean loss with its graph.
    ///
    /// # Errors
    ///
    /// [`StepError`]; nothing of the step has happened then.
    pub fn attempt<M: Module>(
        &mut self,
        model: &M,
        request: &StepRequest,
        predict: PredictShape<'_>,
        mean_loss: MeanLoss<'_, M>,
    ) -> Result<StepOutcome, StepError> {
        let one_by_one = |model: &M, part| Passed::<()>::Loss(mean_loss(model, part));
        let passes = Passes { one_by_one: &one_by_one, side_by_side: None };
        self.attempt_passes(model, request, predict, passes).map(|(outcome, _)| outcome)
    }

    /// Does what [`Self::attempt`] does, with as many parts at once as there are replicas and are certain to fit together.
    ///
    /// Each of them runs on a replica's thread. What comes out is, to the last bit, what parts come to that run one after the
    /// other, unless something random is drawn in a forward pass, whose order is that of the threads then. Parts run one after
    /// the other where nothing is known of their needs, where peaks are not exact, and where forward passes change the model.
    ///
    /// # Errors
    ///
    /// As [`Self::attempt`].
    pub fn attempt_beside<M: Module>(
        &mut self,
        model: &M,
        request: &StepRequest,
        predict: PredictShape<'_>,
        (replicas, mean_loss): (&Replicas, SharedMeanLoss<'_, M>),
    ) -> Result<StepOutcome, StepError> {
        let one_by_one = |model: &M, part| Passed::<()>::Loss(mean_loss(model, part));
        let passes = Passes { one_by_one: &one_by_one, side_by_side: Some((replicas, mean_loss)) };
        self.attempt_passes(model, request, predict, passes).map(|(outcome, _)| outcome)
    }

    /// Does what [`Self::attempt`] does, with passes that make the gradients of their mean loss themselves.
    ///
    /// What an automatic differentiation returns has a gradient for each parameter that the loss depends on. What the passes
    /// make beside gradients, such as a model's output, comes back for each of the outcome's parts, and is dropped with a part
    /// that is discarded.
    ///
    /// # Errors
    ///
    /// As [`Self::attempt`].
    pub fn attempt_gradients<M: Module, T>(
        &mut self,
        model: &M,
        request: &StepRequest,
        predict: PredictShape<'_>,
        mean_gradients: MeanGradients<'_, M, T>,
    ) -> Result<(StepOutcome, Vec<T>), StepError> {
        let one_by_one = |model: &M, part| {
            let (gradients, brought) = mean_gradients(model, part);
            Passed::Gradients(gradients, brought)
        };
        self.attempt_passes(model, request, predict, Passes { one_by_one: &one_by_one, side_by_side: None })
    }

    fn attempt_passes<M: Module, T>(
        &mut self,
        model: &M,
        request: &StepRequest,
        predict: PredictShape<'_>,
        passes: Passes<'_, M, T>,
    ) -> Result<(StepOutcome, Vec<T>), StepError> {
        self.failures.clear();
        self.before = RunningStates::of(model);
        // A panic of somebody's passes leaves all as it was.
        let mut guard = self.guard().clone();
        let work = || self.carry_out(&mut guard, model, request, predict, passes);
        let ran = catch_unwind(AssertUnwindSafe(work));
        if !matches!(ran, Ok(Ok(_))) {
            self.discard(model);
        }
        let ran = ran.unwrap_or_else(|panic| resume_unwind(panic));
        *self.guard() = guard;
        ran
    }

    /// Does what the guard says, until the step is ready for the optimizer or does not go on.
    fn carry_out<M: Module, T>(
        &mut self,
        guard: &mut Guard,
        model: &M,
        request: &StepRequest,
        predict: PredictShape<'_>,
        passes: Passes<'_, M, T>,
    ) -> Result<(StepOutcome, Vec<T>), StepError> {
        let parts = request.micro_batches.iter().map(|it| it.samples.clone());
        let mut now = guard.begin(parts, request.budget.budget, request.may_halve);
        let mut attempts = self.attempts(model, request, predict, passes)?.reading_once();
        loop {
            let happened = match now {
                Now::Look(part) => Happened::Seen(attempts.ahead(&part, predict)),
                Now::Run(part) => attempts.run(&part)?,
                Now::CheckSum => {
                    let is_unread = attempts.is_unread();
                    match attempts.finish()? {
                        Some((outcome, brought)) => {
                            guard.on(Happened::SumFits);
                            self.note_needs(&outcome.parts);
                            return Ok((outcome, brought));
                        }
                        None if is_unread => Happened::Unread,
                        None => Happened::SumFailed,
                    }
                }
                Now::CleanUp => {
                    drop(attempts);
                    self.before.put_back(model);
                    self.give_back()?;
                    attempts = self.attempts(model, request, predict, passes)?;
                    Happened::CleanedUp
                }
                Now::ReadWeights => {
                    let read = attempts.weights_are_whole();
                    Happened::Weights { are_whole: read.inspect_err(|_| guard.forget())? }
                }
                Now::Ask(obstacle) => return Err(attempts.explained(StepError::of(obstacle, request.budget.capacity))),
                _ => unreachable!("nobody was asked what else can be done"),
            };
            now = guard.on(happened);
        }
    }

    /// Begins an attempt.
    fn attempts<'a, M: Module, T>(
        &'a mut self,
        model: &'a M,
        request: &'a StepRequest,
        predict: PredictShape<'_>,
        passes: Passes<'a, M, T>,
    ) -> Result<Attempts<'a, M, T>, StepError> {
        let start = Instant::now();
        let in_use = self.begin_parts(request.micro_batches.first().map(StepPart::shape), predict)?;
        Ok(Attempts::new(self, model, passes, request, (in_use, start.elapsed())))
    }
}
