//! A run under way: what it holds, and what it does before, in and between steps.

mod death;
mod guess;
mod leave_out;
mod one_step;
mod optimize;
mod persist;
mod record;
mod sparing;
mod start;
mod tasks;
mod validate;

use burn::tensor::Device;
use plimsoll_policy::{CapacityWatch, Followed};
use plimsoll_predict::Violation;
use plimsoll_probe::note_work;
use plimsoll_step::{GuardedStep, TrainState};
use plimsoll_types::{
    Attempt, BoundExceeded, Budget, BudgetChanged, Bytes, Decided, Event, Knobs, Phase, Stage, StepFailed,
};

use crate::balance::TaskBalance;
use crate::checkpoint::Best;
use crate::config::FitConfig;
use crate::controller::Controller;
use crate::error::TrainError;
use crate::fit::{Doing, Observer, PlanSparing, Warn, Watching};
use crate::incidents::Incidents;
use crate::job::Job;
use crate::loader::{Loader, Wanted};
use crate::meter::Meter;
use crate::recorder::Recorder;
use crate::run_dir::RunDir;
use crate::signal::StopFlag;
use crate::stopwatch::{Lap, Stopwatch};
use crate::validation::ValidationState;

pub use self::death::Death;
use self::guess::read_budget;
pub use self::leave_out::Unfit;

/// How far the seeds of two steps are apart: the odd number nearest to 2^64 divided by the golden ratio, so that the steps
/// of runs with seeds that are near to each other share none.
const SEED_STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

pub(crate) struct Run<'a, J: Job> {
    job: &'a J,
    config: &'a FitConfig,
    dir: &'a mut RunDir,
    observer: Observer<'a>,
    watching: Option<Watching<'a>>,
    warn: Warn<'a>,
    plan_sparing: Option<PlanSparing<'a>>,
    device: Device,
    guarded: GuardedStep,
    loader: Loader<J::Source>,
    state: TrainState<J::Model>,
    controller: Controller,
    balance: TaskBalance,
    stopwatch: Stopwatch,
    meter: Meter,
    recorder: Recorder,
    incidents: Incidents,
    /// The samples of the step under way.
    under_way: Vec<u64>,
    /// The capacity as a process that died of memory found it; the device may say more.
    guess: Option<Bytes>,
    /// Samples that are left out because they do not fit.
    unfit: Option<Unfit>,
    /// Items of a validation that do not fit, and are not run.
    unfit_items: Option<Unfit>,
    /// The last step whose optimizer ran out of memory.
    recovered: Option<u64>,
    /// How often it has since the last new checkpoint.
    n_recoveries: u32,
    budget: Budget,
    watch: CapacityWatch,
    step: u64,
    /// Samples that the epoch has trained on so far.
    epoch_samples: u64,
    /// The last step whose checkpoint is one that an undisturbed run has too.
    saved_step: Option<u64>,
    /// Whether the validation of this step is in the log.
    validated: bool,
    /// Whether a signal has broken one off.
    is_broken_off: bool,
    validation: ValidationState,
    best: Option<Best>,
    seconds_before: f64,
    stop: StopFlag,
}

impl<J: Job> Run<'_, J> {
    pub(crate) fn step(&self) -> u64 {
        self.step
    }

    /// Notices before a step when there is more or less memory than before.
    pub(crate) fn follow_budget(&mut self) -> Result<(), TrainError> {
        let (guarded, config, guess) = (&self.guarded, self.config, self.guess);
        let budget = self.stopwatch.time(Lap::Probe, || read_budget(guarded, config, guess))?;
        let followed = self.watch.read(self.step, budget.capacity, self.budget.capacity);
        let Some(Followed { capacity, is_news }) = followed else { return Ok(()) };
        let budget = Budget { capacity, budget: capacity.scale(config.target) };
        if !is_news {
            self.budget = budget;
            return Ok(());
        }
        self.go_by(budget)
    }

    /// Holds steps under another budget from here on.
    fn go_by(&mut self, budget: Budget) -> Result<(), TrainError> {
        self.budget = budget;
        if self.config.deterministic {
            return Ok(());
        }
        self.answer(Event::BudgetChanged(BudgetChanged { step: self.step, budget }))
    }

    /// Returns what bounds a step: nothing, where readings are only logged.
    fn bound(&self) -> Budget {
        if self.config.deterministic { Budget::UNBOUNDED } else { self.budget }
    }

    /// Does something below the line, where one is drawn: what passes the capacity meanwhile is refused.
    fn below_line<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> Result<T, TrainError> {
        if !self.config.draws_line {
            return Ok(work(self));
        }
        let step = self.step;
        let failed = |source| TrainError::Step { step, source };
        self.guarded.draw_line(true).map_err(failed)?;
        let done = work(self);
        note_work(format_args!("what is done between steps"));
        self.guarded.draw_line(false).map_err(failed)?;
        Ok(done)
    }

    /// Seeds the device anew, so that what is random in a step is the same after a resumption.
    fn seed(&self) {
        self.device.seed(self.config.seed.wrapping_add(self.step.wrapping_mul(SEED_STRIDE)));
    }

    /// Answers a failure of the step under way at which nothing but the rung is known.
    fn answer_failure(&mut self, rung: Knobs, stage: Stage) -> Result<(), TrainError> {
        let (step, capacity) = (self.step, self.budget.capacity);
        let resident = self.guarded.read().map_err(|source| TrainError::Step { step, source })?.in_use;
        let attempt = Attempt::new(rung.shape(), resident);
        self.answer(Event::StepFailed(StepFailed { step, rung, attempt, capacity, stage }))
    }

    /// Says what comes next.
    fn begin(&mut self, doing: Doing) {
        let (watching, progress) = (&mut self.watching, self.meter.progress());
        self.stopwatch.time(Lap::Monitor, || watching.iter_mut().for_each(|it| it(doing, progress)));
    }

    /// Learns from an event and decides, and logs both the event and the decision.
    fn answer(&mut self, event: Event) -> Result<(), TrainError> {
        let controller = &mut self.controller;
        let mut violations = Vec::new();
        if !self.config.deterministic {
            violations = self.stopwatch.time(Lap::Predict, || controller.learn(&event))?;
        }
        if !violations.is_empty() {
            // Pages that something took once would show in every later reading of the same shape.
            self.guarded.forget_pages();
        }
        let (step, decision) = (self.step, self.stopwatch.time(Lap::Policy, || controller.decide(&event)));
        let decided = decision.map(|decision| Event::Decided(Decided { step, decision }));
        let exceeded = exceeded(step, Phase::Train, violations);
        let events: Vec<Event> = [event].into_iter().chain(decided).chain(exceeded).collect();
        self.log(&events)
    }

    fn log(&mut self, events: &[Event]) -> Result<(), TrainError> {
        let (dir, meter, observer) = (&mut *self.dir, &mut self.meter, &mut *self.observer);
        let recorder = &mut self.recorder;
        self.stopwatch.time(Lap::Monitor, || {
            dir.log(events)?;
            for event in events {
                recorder.note(event);
                meter.update(event);
                observer(event, meter.progress());
            }
            Ok(())
        })
    }
}

/// Returns what the log says of readings above their bounds.
fn exceeded(step: u64, phase: Phase, violations: Vec<Violation>) -> impl Iterator<Item = Event> {
    let exceeded = move |Violation { shape, upper, peak }| BoundExceeded { step, phase, shape, upper, peak };
    violations.into_iter().map(exceeded).map(Event::BoundExceeded)
}

/// What the next step is to be filled with.
fn wanted(controller: &Controller) -> Wanted {
    match controller.policy().batch_sizes() {
        Some(sizes) => Wanted::Batches(sizes.to_vec()),
        None => Wanted::Edge(controller.policy().knobs().patch_size),
    }
}
