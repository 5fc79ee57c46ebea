//! Measuring the model on what is held out.

use std::time::{Duration, Instant};

use plimsoll_predict::Violation;
use plimsoll_step::StepError;
use plimsoll_types::{Bytes, Event, Fraction, ItemsMeasured, Phase, TaskMetric, Validated};

use super::{Run, exceeded};
use crate::config::FitConfig;
use crate::error::TrainError;
use crate::fit::Doing;
use crate::inference::Inference;
use crate::job::{Job, Metric, Validation};
use crate::signal::StopFlag;
use crate::validation::{Amount, Clock};

/// What a validation may take that comes after a signal: whoever asked for the end waits for it.
const AFTER_SIGNAL: Duration = Duration::from_secs(5);

/// Why the model is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Occasion {
    /// It is time to.
    Due,
    /// A signal ends the run, and the last validation is old.
    Interruption,
    /// The run is over, and only a part of the set was measured so far.
    WholeSet,
}

impl<J: Job> Run<'_, J> {
    /// Validates, unless a signal asks for the end meanwhile.
    pub(super) fn validate(&mut self) -> Result<(), TrainError> {
        self.validate_on(Occasion::Due)
    }

    /// Validates once more before an interrupted run ends, where the last validation is old and another one is known to be
    /// quick.
    pub(super) fn validate_at_interruption(&mut self) -> Result<(), TrainError> {
        let amount = self.amount();
        let expected = self.validation.expected_next(amount);
        let is_quick = expected.is_some_and(|it| it <= AFTER_SIGNAL.as_secs_f64());
        if self.validated || self.is_broken_off || !is_quick {
            return Ok(());
        }
        self.validate_on(Occasion::Interruption)
    }

    /// Measures the whole set once at the end, where only a part of it was so far and the time for it is there.
    pub(super) fn validate_whole_set(&mut self) -> Result<(), TrainError> {
        let (share, seconds) = (self.config.validation_share, self.seconds_before + self.meter.seconds());
        if self.config.deterministic || !self.validation.has_room_for_all(share, seconds) {
            return Ok(());
        }
        self.validate_on(Occasion::WholeSet)
    }

    /// Returns how many items the next validation has.
    pub(super) fn amount(&mut self) -> Amount {
        let (share, is_deterministic): (Fraction, _) = (self.config.validation_share, self.config.deterministic);
        let every = self.config.validate_every;
        let clock = Clock { step: self.meter.seconds_of_step(), every, steps_between: every.min(self.config.n_steps) };
        self.validation.amount(share, is_deterministic, clock)
    }

    /// Says when the run goes on with other settings than those that the part of the set was chosen for.
    pub(super) fn name_other_validation(&mut self) {
        let FitConfig { validation_share, deterministic, validate_every, .. } = *self.config;
        if let Some(change) = self.validation.change(validation_share, deterministic, validate_every) {
            (self.warn)(&change);
        }
    }

    fn validate_on(&mut self, occasion: Occasion) -> Result<(), TrainError> {
        let start = Instant::now();
        self.meter.begin_validation();
        self.begin(Doing::Validation);
        let amount = if occasion == Occasion::WholeSet { Amount::All } else { self.amount() };
        self.seed();
        let measured = self.below_line(|run| run.measure(occasion, amount))?;
        self.meter.end_validation();
        let Measured { validation, peak, edge, violations, items, has_begun } = measured;
        self.log(&exceeded(self.step, Phase::Infer, violations).collect::<Vec<_>>())?;
        let Validation { metric, tasks } = match validation {
            Err(StepError::Interrupted) => {
                self.is_broken_off |= has_begun;
                return Ok(());
            }
            // The run is over either way, and what it has learnt is saved.
            Err(_) if occasion == Occasion::Interruption => return Ok(()),
            Err(error) if occasion == Occasion::WholeSet => {
                (self.warn)(&format!("the whole validation set was not measured at the end: {error}"));
                return Ok(());
            }
            // Lost weights fit nowhere.
            Err(StepError::NeverFits { .. }) if !self.has_weights()? => {
                return self.go_back(self.controller.policy().knobs(), None);
            }
            Err(StepError::NeverFits { .. }) if self.raise_budget()? => return self.validate_on(occasion),
            validation => validation.map_err(|source| {
                let item = source.sample().map(|_| self.job.describe_validation(edge).into());
                TrainError::Validation { step: self.step, source, item }
            })?,
        };
        let seconds = start.elapsed().as_secs_f64();
        self.validation.note(items, seconds);
        let part = items.filter(|it| it.n < it.of);
        let tasks = tasks.into_iter().map(|Metric { name, value, baseline, .. }| TaskMetric {
            metric_name: name,
            metric: value,
            baseline,
        });
        self.log(&[Event::Validated(Validated {
            step: self.step,
            metric_name: metric.name.clone(),
            metric: metric.value,
            baseline: metric.baseline,
            goal: Some(metric.goal),
            part,
            tasks: tasks.collect(),
            peak,
            seconds,
        })])?;
        match occasion {
            Occasion::Due => {
                self.validated = true;
                self.keep_best(&metric, part)?;
            }
            Occasion::Interruption => self.note_best_of_interruption(&metric, part)?,
            Occasion::WholeSet => (),
        }
        let next = self.amount();
        if let Some(seconds) = self.validation.expected_next(next) {
            self.meter.expect_validations(seconds);
        }
        Ok(())
    }

    /// Lets the job measure the model.
    fn measure(&mut self, occasion: Occasion, amount: Amount) -> Measured {
        let (model, passes) = (self.state.model(), self.guarded.forward_passes());
        let longest = self.unfit_items.and_then(|it| it.longest(self.budget.budget));
        let (meter, watching) = (&mut self.meter, &mut self.watching);
        let mut watch = |n_done, n| {
            let progress = meter.validating(n_done, n);
            if let Some(watching) = watching {
                watching(Doing::Validation, progress);
            }
        };
        let (stop, deadline) = match occasion {
            // The signal is known; a second one ends the process.
            Occasion::Interruption => (StopFlag::default(), Some(Instant::now() + AFTER_SIGNAL)),
            Occasion::Due | Occasion::WholeSet => (self.stop.clone(), None),
        };
        let inference =
            Inference::new(passes, &mut self.controller, self.budget, stop).measuring(amount, self.config.seed);
        let inference = inference.deterministic(self.config.deterministic).up_to(longest);
        let mut inference = inference.watched(&mut watch).until(deadline);
        let validation = self.job.validate(model, &self.device, &mut inference);
        let (peak, edge, items) = (inference.peak(), inference.edge(), inference.chosen());
        let has_begun = inference.has_begun();
        Measured { validation, peak, edge, violations: inference.into_violations(), items, has_begun }
    }
}

/// What came of a validation, or of a part of one.
struct Measured {
    validation: Result<Validation, StepError>,
    /// Its high-water mark.
    peak: Bytes,
    /// Of the items that ran last.
    edge: u32,
    violations: Vec<Violation>,
    /// Which were measured, where the job says.
    items: Option<ItemsMeasured>,
    /// Whether any item was, before it ended.
    has_begun: bool,
}
