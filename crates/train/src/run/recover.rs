//! The way on when a step stops, as the guard decides.

use plimsoll_guard::{Happened, Means, Now, Obstacle};
use plimsoll_step::{Readiness, StepError};
use plimsoll_types::{Bytes, Event, Extent, GradientCheckpointing, Knobs, Recompute, Stage};

use super::Run;
use super::under_way::UnderWay;
use crate::error::{Misfit, TrainError};
use crate::job::Job;
use crate::source::Source;
use crate::stopwatch::Lap;

/// How a step came to a stop.
pub(super) enum Stopped {
    /// Its parts, or their sum, do not fit, or the weights are lost.
    Attempt(StepError),
    /// The optimizer's step ran out of memory.
    Update {
        /// What it reached, where the device could say.
        peak: Option<Bytes>,
    },
    /// Another rank does not go on with it.
    Apart(Readiness),
}

impl<J: Job> Run<'_, '_, J> {
    /// Does what the guard says of a step that has stopped, and prepares another attempt at it; returns none where the run
    /// went back instead.
    pub(super) fn recover(
        &mut self,
        mut step: UnderWay<J>,
        stopped: Stopped,
    ) -> Result<Option<UnderWay<J>>, TrainError> {
        if let Stopped::Apart(standing) = stopped {
            return self.follow(step, standing);
        }
        let sample = if let Stopped::Attempt(error) = &stopped { error.sample() } else { None };
        let extent = sample.map(|it| step.request.extent_of(it));
        let may_leave_out = extent.is_some_and(|it| self.feed.may_leave_out(it));
        // Where all together do not fit, it may help any of them.
        let shortest = || step.request.micro_batches.iter().map(|it| it.extent.edge()).min();
        let edge = extent.map(Extent::edge).or_else(shortest).unwrap_or(0);
        let may_recompute = self.control.may_recompute(edge);
        let means = Means { may_recompute, may_leave_out, ..self.means()? };
        match self.training.guard().on(Happened::Asked(means)) {
            Now::RaiseBudget => self.raise_budget()?,
            Now::Recompute => self.spare_memory(edge)?,
            Now::LeaveOut(sample) => return self.leave_out(step, sample),
            Now::TakeAgain => {
                self.take_again(step.rung)?;
                return Ok(Some(step));
            }
            Now::GoBack => return self.go_back(step.rung).map(|()| None),
            _ => return Err(self.given_up(&step, stopped)),
        }
        self.follow_budget()?;
        step.request.budget = self.control.bound();
        Ok(Some(step))
    }

    /// Says what can be done at any time.
    fn means(&self) -> Result<Means, TrainError> {
        let may_raise_budget = self.control.may_raise(self.training.probe())?;
        Ok(Means { step: self.step(), may_raise_budget, ..Means::default() })
    }

    /// Does what the guard says of an item of a validation that does not fit; returns whether the validation is to be done
    /// again, or else the run went back.
    pub(super) fn recover_item(&mut self, error: TrainError) -> Result<bool, TrainError> {
        let mut now = self.training.guard().on(Happened::ItemNeverFits);
        if now == Now::ReadWeights {
            let are_whole = self.has_weights()?;
            now = self.training.guard().on(Happened::Weights { are_whole });
        }
        let means = self.means()?;
        match self.training.guard().on(Happened::Asked(means)) {
            Now::RaiseBudget => self.raise_budget().map(|()| true),
            Now::GoBack => self.go_back(self.control.knobs()).map(|()| false),
            _ if now == Now::Ask(Obstacle::Item) => Err(error),
            _ => Err(self.optimizer_never_fits(None)),
        }
    }

    /// Does what the guard says of weights that are lost.
    pub(super) fn recover_weights(&mut self) -> Result<(), TrainError> {
        let means = self.means()?;
        self.training.guard().on(Happened::WeightsLost);
        match self.training.guard().on(Happened::Asked(means)) {
            Now::GoBack => self.go_back(self.control.knobs()),
            _ => Err(self.optimizer_never_fits(None)),
        }
    }

    /// Says why nothing is left to be done.
    fn given_up(&self, step: &UnderWay<J>, stopped: Stopped) -> TrainError {
        match stopped {
            Stopped::Apart(_) => unreachable!("it was answered"),
            Stopped::Update { peak } => self.optimizer_never_fits(peak),
            Stopped::Attempt(StepError::Damaged) => self.optimizer_never_fits(None),
            Stopped::Attempt(source) => match source.sample() {
                Some(sample) => self.never_fits(step, source, sample),
                None => self.failed(source),
            },
        }
    }

    fn optimizer_never_fits(&self, peak: Option<Bytes>) -> TrainError {
        TrainError::OptimizerNeverFits { step: self.step(), peak, capacity: self.control.budget().capacity }
    }

    /// Says all there is to say of a sample that does not fit.
    fn never_fits(&self, step: &UnderWay<J>, source: StepError, sample: usize) -> TrainError {
        TrainError::NeverFits {
            step: self.step(),
            source,
            sample: Box::new(self.misfit(sample)),
            may_skip: self.feed.could_leave_out(),
            extent: step.request.extent_of(sample),
            largest_allocation: self.training.probe().largest_taken(),
            is_checkpointing: self.control.controller().recompute().is_on(step.request.extent_of(sample).edge()),
        }
    }

    /// Goes by a higher guess of the capacity.
    fn raise_budget(&mut self) -> Result<(), TrainError> {
        match self.control.raise(self.standing.step(), self.training.probe())? {
            Some(event) => self.answer(event),
            None => Ok(()),
        }
    }

    /// Switches gradient checkpointing on for samples of an edge and longer ones, and says so.
    pub(super) fn spare_memory(&mut self, edge: u32) -> Result<(), TrainError> {
        let recompute = self.control.controller().recompute().or(self.config.loader.recompute_from(edge));
        let (planned, step) = (self.plan_anew(recompute)?, self.step());
        self.training.forget_needs();
        self.answer(Event::GradientCheckpointing(GradientCheckpointing { step, recompute, planned }))
    }

    /// Plans the steps to come, where plans are wanted; without one they tell by themselves what they need.
    fn plan_anew(&mut self, recompute: Recompute) -> Result<Option<String>, TrainError> {
        if self.control.plans_anew() {
            self.training.settle().map_err(|source| TrainError::Step { step: self.standing.step(), source })?;
        }
        let Some(planned) = self.control.plan_anew(recompute) else { return Ok(None) };
        // What it has left reserved is no step's.
        self.training.forget_pages();
        let error: Box<dyn std::error::Error> = match planned.map(|needs| serde_json::to_string(&needs)) {
            Ok(Ok(needs)) => return Ok(Some(needs)),
            Ok(Err(error)) => Box::new(error),
            Err(error) => Box::new(error),
        };
        let warning = format!("no plan of steps that recompute activations, the steps will tell: failed to {error}");
        self.journal.warn(&warning);
        Ok(None)
    }

    /// Leaves the sample out that does not fit, and all that are as large; one that is padded to more than its own cell is
    /// padded to less instead.
    fn leave_out(&mut self, step: UnderWay<J>, sample: usize) -> Result<Option<UnderWay<J>>, TrainError> {
        let (extent, Misfit { name, unit, .. }) = (step.request.extent_of(sample), self.misfit(sample));
        let own = step.samples.extents.get(sample).map_or(extent, |it| self.config.loader.cells.padded(*it));
        let what = if own.covers(extent) { format!("{name} alone") } else { format!("{name}, padded to as much,") };
        self.journal.warn(&format!(
            "samples of {extent} {unit} and more are left out: {what} does not fit, and `data.bad_sample` is \"skip\""
        ));
        self.feed.note_unfit(extent, self.control.budget().budget);
        match self.tell(Readiness::LeavesOut { extent })? {
            Some(standing) => self.follow(step, standing),
            None => self.without_unfit(step).map(Some),
        }
    }

    /// Begins a step again without the samples that are left out by now.
    pub(super) fn without_unfit(&mut self, step: UnderWay<J>) -> Result<UnderWay<J>, TrainError> {
        let (wanted, budget) = (self.wanted(), self.control.budget().budget);
        let samples = self.feed.leave_out(step.samples, (&wanted, budget), &mut self.journal)?;
        let samples = self.begun(samples)?;
        let request = self.request(&samples)?;
        Ok(UnderWay { samples, request, ..step })
    }

    /// Says all there is to say of a sample of the step under way that does not fit.
    fn misfit(&self, sample: usize) -> Misfit {
        let (data, id) = (self.job.source(), self.feed.under_way().get(sample).copied().unwrap_or_default());
        Misfit { name: data.describe(id), smaller: data.smaller(), unit: self.job.unit_of_length() }
    }

    /// Prepares for the same step again, from the copy that was kept.
    fn take_again(&mut self, rung: Knobs) -> Result<(), TrainError> {
        let failure = "the optimizer's step ran out of memory, and is taken again from a copy of the state";
        self.note_failure(failure)?;
        self.tell_policy(rung)
    }

    /// Goes back to the last checkpoint, because the weights are lost or were made with too much memory.
    fn go_back(&mut self, rung: Knobs) -> Result<(), TrainError> {
        let failure = "the optimizer's step ran out of memory, and the run went back to its last checkpoint";
        self.note_failure(failure)?;
        self.tell(Readiness::GoesBack)?;
        self.return_together()?;
        self.journal.warn(&format!("{failure}, of step {}", self.standing.step()));
        self.tell_policy(rung)
    }

    fn note_failure(&mut self, failure: &str) -> Result<(), TrainError> {
        self.record(failure.to_owned())?;
        self.training.clean_up().map_err(|it| self.failed(it))
    }

    fn tell_policy(&mut self, rung: Knobs) -> Result<(), TrainError> {
        if self.control.is_deterministic() {
            return Ok(());
        }
        self.answer_failure(rung, Stage::Optimizer)
    }

    /// Whether the weights are there, for all that is known.
    pub(super) fn has_weights(&mut self) -> Result<bool, TrainError> {
        let training = &self.training;
        let is_whole = self.journal.time(Lap::Check, || training.has_weights());
        is_whole.map_err(|it| self.failed(it))
    }
}
