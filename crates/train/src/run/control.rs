//! What decides about the steps to come: the controller, and the memory that it knows of.

use plimsoll_plan::{PlanError, PlannedNeed};
use plimsoll_policy::{CapacityWatch, Followed};
use plimsoll_predict::Violation;
use plimsoll_probe::{Probe, ProbeError};
use plimsoll_types::{
    BoundExceeded, Budget, BudgetChanged, Bytes, Decided, Event, Features, Fraction, Knobs, Phase, Prediction,
    Recompute, StepShape,
};

use super::journal::Journal;
use crate::config::FitConfig;
use crate::controller::{Controller, ControllerError};
use crate::error::TrainError;
use crate::fit::PlanSparing;
use crate::loader::Wanted;
use crate::stopwatch::Lap;

/// One part in so many is added to a guess that turns out too low.
const GROWTH: u64 = 8;

/// The controller of a run, and what it goes by.
pub(super) struct Control<'s> {
    controller: Controller,
    budget: Budget,
    watch: CapacityWatch,
    /// The capacity as a process that died of memory found it; the device may say more.
    guess: Option<Bytes>,
    target: Fraction,
    /// Readings are logged, and decide nothing.
    is_deterministic: bool,
    may_checkpoint: bool,
    plan_sparing: Option<PlanSparing<'s>>,
}

/// What there is to log of an event.
pub(super) struct Answer {
    /// The event, and what follows from it.
    pub(super) events: Vec<Event>,
    /// Whether a reading was above its bound.
    pub(super) is_exceeded: bool,
}

impl<'s> Control<'s> {
    /// Begins without any knowledge of memory; [`Self::read_anew`] comes first.
    ///
    /// A deterministic run takes nothing from readings, nor from what others read.
    pub(super) fn try_new(
        config: &FitConfig,
        features: Features,
        guess: Option<Bytes>,
        plan_sparing: Option<PlanSparing<'s>>,
    ) -> Result<Self, ControllerError> {
        Ok(Self {
            controller: Controller::try_new(config.controller.with_features(features))?,
            budget: Budget { capacity: Bytes::ZERO, budget: Bytes::ZERO },
            watch: CapacityWatch::default(),
            guess: guess.filter(|_| !config.deterministic),
            target: config.target,
            is_deterministic: config.deterministic,
            may_checkpoint: config.may_checkpoint && !config.deterministic,
            plan_sparing,
        })
    }

    /// Goes on with what a checkpoint says.
    pub(super) fn load(&mut self, step: u64, controller: Controller, budget: Budget) {
        (self.controller, self.budget, self.watch) = (controller, budget, CapacityWatch::since(step));
    }

    pub(super) fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Lends the controller to a validation, which learns beside the log.
    pub(super) fn controller_mut(&mut self) -> &mut Controller {
        &mut self.controller
    }

    /// Returns what there is.
    pub(super) fn budget(&self) -> Budget {
        self.budget
    }

    /// Returns what bounds a step: nothing, where readings are only logged.
    pub(super) fn bound(&self) -> Budget {
        if self.is_deterministic { Budget::UNBOUNDED } else { self.budget }
    }

    pub(super) fn is_deterministic(&self) -> bool {
        self.is_deterministic
    }

    pub(super) fn knobs(&self) -> Knobs {
        self.controller.policy().knobs()
    }

    /// Returns what the next step is to be filled with.
    pub(super) fn wanted(&self) -> Wanted {
        match self.controller.policy().batch_sizes() {
            Some(sizes) => Wanted::Batches(sizes.to_vec()),
            None => Wanted::Edge(self.knobs().patch_size),
        }
    }

    /// Predicts a part that begins with `resident` bytes in use.
    pub(super) fn predict(&self, shape: StepShape, resident: Bytes) -> Option<Prediction> {
        self.controller.predict(shape, resident)
    }

    /// Reads the capacity, and takes the part of it that a step may use.
    pub(super) fn read(&self, probe: &dyn Probe) -> Result<Budget, ProbeError> {
        let capacity = probe.capacity()?;
        let capacity = self.guess.map_or(capacity, |guess| guess.min(capacity));
        Ok(Budget { capacity, budget: capacity.scale(self.target) })
    }

    /// Goes by what is read now, before anything is logged.
    pub(super) fn read_anew(&mut self, probe: &dyn Probe) -> Result<(), ProbeError> {
        self.budget = self.read(probe)?;
        Ok(())
    }

    /// Notices before a step when there is more or less memory than before; returns what there is to answer.
    pub(super) fn follow(
        &mut self,
        step: u64,
        probe: &dyn Probe,
        journal: &mut Journal<'_>,
    ) -> Result<Option<Event>, ProbeError> {
        let budget = journal.time(Lap::Probe, || self.read(probe))?;
        let followed = self.watch.read(step, budget.capacity, self.budget.capacity);
        let Some(Followed { capacity, is_news }) = followed else { return Ok(None) };
        let changed = self.go_by(step, Budget { capacity, budget: capacity.scale(self.target) });
        Ok(changed.filter(|_| is_news))
    }

    /// Holds steps under another budget from here on.
    fn go_by(&mut self, step: u64, budget: Budget) -> Option<Event> {
        self.budget = budget;
        (!self.is_deterministic).then_some(Event::BudgetChanged(BudgetChanged { step, budget }))
    }

    /// Whether the capacity that a dead process has left as a guess is below what the device says.
    pub(super) fn may_raise(&self, probe: &dyn Probe) -> Result<bool, ProbeError> {
        let real = probe.capacity()?;
        Ok(self.guess.is_some_and(|guess| guess < real))
    }

    /// Raises that guess, because one sample alone does not fit into it.
    ///
    /// What it held when it was refused more is not all that a new process may need: its thread pools and work space come
    /// on top of the first step.
    pub(super) fn raise_guess(&mut self) {
        self.guess = self.guess.map(|guess| guess.saturating_add(Bytes(guess.0 / GROWTH)));
    }

    /// As [`Self::raise_guess`], in a run that has begun: it goes by the raised one at once, however little more that is.
    /// Returns what there is to answer.
    pub(super) fn raise(&mut self, step: u64, probe: &dyn Probe) -> Result<Option<Event>, ProbeError> {
        self.raise_guess();
        self.watch = CapacityWatch::since(step);
        let budget = self.read(probe)?;
        Ok(self.go_by(step, budget))
    }

    /// Whether gradient checkpointing may be switched on for samples of an edge, and is not on already.
    pub(super) fn may_recompute(&self, edge: u32) -> bool {
        self.may_checkpoint && !self.controller.recompute().is_on(edge)
    }

    /// Whether steps that recompute activations are planned in the midst of a run.
    pub(super) fn plans_anew(&self) -> bool {
        self.plan_sparing.is_some()
    }

    /// Plans them, of these samples; the device must be idle.
    pub(super) fn plan_anew(&mut self, recompute: Recompute) -> Option<Result<Vec<PlannedNeed>, PlanError>> {
        self.plan_sparing.as_deref_mut().map(|plan| plan(recompute))
    }

    /// Learns from an event and decides; returns what there is to log.
    pub(super) fn answer(&mut self, step: u64, event: Event, journal: &mut Journal<'_>) -> Result<Answer, TrainError> {
        let controller = &mut self.controller;
        let mut violations = Vec::new();
        if !self.is_deterministic {
            violations = journal.time(Lap::Predict, || controller.learn(&event))?;
        }
        let is_exceeded = !violations.is_empty();
        let decision = journal.time(Lap::Policy, || controller.decide(&event));
        let decided = decision.map(|decision| Event::Decided(Decided { step, decision }));
        let exceeded = exceeded(step, Phase::Train, violations);
        Ok(Answer { events: [event].into_iter().chain(decided).chain(exceeded).collect(), is_exceeded })
    }
}

/// Returns what the log says of readings above their bounds.
pub(super) fn exceeded(step: u64, phase: Phase, violations: Vec<Violation>) -> impl Iterator<Item = Event> {
    let exceeded = move |Violation { shape, upper, peak }| BoundExceeded { step, phase, shape, upper, peak };
    violations.into_iter().map(exceeded).map(Event::BoundExceeded)
}
