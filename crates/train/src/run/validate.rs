//! Measuring the model on what is held out.

use std::time::{Duration, Instant};

use plimsoll_step::StepError;
use plimsoll_types::{Bytes, Event, Extent, ItemsMeasured, NamedMetric, Phase, Validated};

use super::Run;
use super::control::exceeded;
use crate::error::TrainError;
use crate::fit::Doing;
use crate::inference::Inference;
use crate::job::{Job, Metric, Validation};
use crate::signal::StopFlag;
use crate::validation::Amount;

/// What may be measured after a signal takes no longer together: whoever asked for the end waits for it.
pub(super) const AFTER_SIGNAL: Duration = Duration::from_secs(5);

/// Why the model is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Occasion {
    /// It is time to.
    Due,
    /// A signal ends the run, and the last validation is old; it ends at that time.
    Interruption(Instant),
    /// The run is over, and only a part of the set was measured so far.
    WholeSet,
}

impl<J: Job> Run<'_, '_, J> {
    /// Validates, unless a signal asks for the end meanwhile.
    ///
    /// Of several ranks the first does; the others wait where the next step begins.
    pub(super) fn validate(&mut self) -> Result<(), TrainError> {
        if !self.is_first() {
            self.validations.note_done();
            return Ok(());
        }
        self.validate_on(Occasion::Due)
    }

    /// Validates once more before an interrupted run ends, where the last validation is old and another one is known to be
    /// quick.
    pub(super) fn validate_at_interruption(&mut self, until: Instant) -> Result<(), TrainError> {
        if self.validations.is_done() || !self.is_quick() {
            return Ok(());
        }
        self.validate_on(Occasion::Interruption(until))
    }

    /// Whether a validation is known to be quick, and none was broken off.
    pub(super) fn is_quick(&mut self) -> bool {
        let amount = self.amount();
        let is_quick = self.validations.expected(amount).is_some_and(|it| it <= AFTER_SIGNAL.as_secs_f64());
        is_quick && !self.validations.is_broken_off()
    }

    /// Measures the whole set once at the end, where only a part of it was so far and the time for it is there.
    pub(super) fn validate_whole_set(&mut self) -> Result<(), TrainError> {
        let seconds = self.standing.seconds(self.journal.seconds());
        if self.validations.has_room_for_all(self.config, seconds) {
            self.validate_on(Occasion::WholeSet)?;
        }
        Ok(())
    }

    /// Returns how many items the next validation has.
    pub(super) fn amount(&mut self) -> Amount {
        self.validations.amount(self.config, self.journal.seconds_of_step())
    }

    fn validate_on(&mut self, occasion: Occasion) -> Result<(), TrainError> {
        let start = Instant::now();
        let _span = tracing::info_span!("validate", step = self.step()).entered();
        let amount = if occasion == Occasion::WholeSet { Amount::All } else { self.amount() };
        let until = if let Occasion::Interruption(until) = occasion { Some(until) } else { None };
        let Measured { validation, peak, extent, items, has_begun } = self.measure(Set::Validation, amount, until)?;
        let validation = match validation {
            Err(StepError::Interrupted) => {
                self.validations.note_broken_off(has_begun);
                return Ok(());
            }
            // The run is over either way, and what it has learnt is saved.
            Err(_) if until.is_some() => return Ok(()),
            Err(error) if occasion == Occasion::WholeSet => {
                self.journal.warn(&format!("the whole validation set was not measured at the end: {error}"));
                return Ok(());
            }
            Err(source) => {
                let item = source.sample().map(|_| self.job.describe_validation(extent).into());
                let never_fits = matches!(source, StepError::NeverFits { .. });
                let error = TrainError::Validation { step: self.step(), source, item };
                if !never_fits {
                    return Err(error);
                }
                return if self.recover_item(error)? { self.validate_on(occasion) } else { Ok(()) };
            }
            Ok(validation) => validation,
        };
        let Some(validation) = validation else {
            self.validations.note_done();
            return Ok(());
        };
        let seconds = start.elapsed().as_secs_f64();
        self.validations.note(items, seconds);
        let part = items.filter(|it| it.n < it.of);
        self.journal.log(&[Event::Validated(validated(self.step(), &validation, part, peak, seconds))])?;
        match occasion {
            Occasion::Due => {
                self.validations.note_done();
                self.keep_best(&validation.metric, part)?;
            }
            Occasion::Interruption(_) => self.note_best_of_interruption(&validation.metric, part)?,
            Occasion::WholeSet => (),
        }
        let next = self.amount();
        if let Some(seconds) = self.validations.expected(next) {
            self.journal.expect_validations(seconds);
        }
        Ok(())
    }

    /// Lets the job measure the model on a set, below the line, and logs readings above their bounds.
    ///
    /// After a signal, there is a time `until` which it may take.
    pub(super) fn measure(&mut self, set: Set, amount: Amount, until: Option<Instant>) -> Result<Measured, TrainError> {
        let doing = if set == Set::Test { Doing::Test } else { Doing::Validation };
        self.journal.begin_validation(doing);
        self.seed();
        let Self { job, config, journal, control, validations, .. } = self;
        let budget = control.budget();
        let longest = validations.longest(budget.budget);
        // The signal is known then; a second one ends the process.
        let stop = if until.is_some() { StopFlag::default() } else { self.stop.clone() };
        let measured = self.training.below_line(|training| {
            let (model, device, passes) = training.forward();
            let mut watch = |n_done, n| journal.validating(doing, n_done, n);
            let inference =
                Inference::new(passes, control.controller_mut(), budget, stop).measuring(amount, config.seed);
            let inference = inference.deterministic(config.deterministic).up_to(longest);
            let mut inference = inference.watched(&mut watch).until(until);
            let validation = match set {
                Set::Validation => job.validate(model, device, &mut inference),
                Set::Test => job.test(model, device, &mut inference),
            };
            let (peak, extent, items) = (inference.peak(), inference.extent(), inference.chosen());
            let has_begun = inference.has_begun();
            Ok((Measured { validation, peak, extent, items, has_begun }, inference.into_violations()))
        });
        let ((measured, violations), _) = measured.map_err(|it| self.failed(it))?;
        self.journal.end_validation();
        self.journal.log(&exceeded(self.step(), Phase::Infer, violations).collect::<Vec<_>>())?;
        Ok(measured)
    }
}

/// Says what was measured of the model of a step.
pub(super) fn validated(
    step: u64,
    Validation { metric, tasks, others }: &Validation,
    part: Option<ItemsMeasured>,
    peak: Bytes,
    seconds: f64,
) -> Validated {
    let named = |Metric { name, value, baseline, .. }: &Metric| NamedMetric {
        metric_name: name.clone(),
        metric: *value,
        baseline: *baseline,
    };
    Validated {
        step,
        metric_name: metric.name.clone(),
        metric: metric.value,
        baseline: metric.baseline,
        goal: Some(metric.goal),
        part,
        others: others.iter().map(named).collect(),
        tasks: tasks.iter().map(named).collect(),
        peak,
        seconds,
    }
}

/// What is held out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Set {
    /// What the best model is chosen by.
    Validation,
    /// What nothing is chosen by.
    Test,
}

/// What came of a validation or the test, or of a part of one.
pub(super) struct Measured {
    pub(super) validation: Result<Option<Validation>, StepError>,
    /// Its high-water mark.
    pub(super) peak: Bytes,
    /// Of the items that ran last.
    extent: Extent,
    /// Which were measured, where the job says.
    pub(super) items: Option<ItemsMeasured>,
    /// Whether any item was, before it ended.
    has_begun: bool,
}
