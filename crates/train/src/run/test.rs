//! The test of the best model, at the end of a run.

use std::time::Instant;

use plimsoll_step::StepError;
use plimsoll_types::{EndReason, Event};

use super::Run;
use super::validate::{AFTER_SIGNAL, Measured, Set, validated};
use crate::checkpoint::Checkpoint;
use crate::error::TrainError;
use crate::job::Job;
use crate::validation::Amount;

impl<J: Job> Run<'_, '_, J> {
    /// Measures what the last validations have left out, and tests the best model; after a signal, what is quick of that.
    pub(super) fn measure_at_end(&mut self, reason: EndReason) -> Result<(), TrainError> {
        if reason == EndReason::Interrupted {
            let until = Instant::now() + AFTER_SIGNAL;
            self.validate_at_interruption(until)?;
            let amount = self.amount();
            return if self.is_quick() { self.test(amount, Some(until)) } else { Ok(()) };
        }
        self.validate_whole_set()?;
        let (run, step) = (self.standing.seconds(self.journal.seconds()), self.journal.seconds_of_step());
        let amount = self.validations.amount_of_test(self.config, run, step);
        self.test(amount, None)
    }

    /// Tests the model of the best validation on so many items.
    ///
    /// Whatever goes wrong is told and ends nothing: the run is over, and what it has learnt is saved.
    fn test(&mut self, amount: Amount, until: Option<Instant>) -> Result<(), TrainError> {
        let Some(step) = Checkpoint::best_step(self.journal.path()).filter(|_| self.job.has_test()) else {
            return Ok(());
        };
        if let Err(error) = self.take_model_of(step) {
            self.journal.warn(&format!("the best model, of step {step}, was not tested: failed to {error}"));
            return Ok(());
        }
        let start = Instant::now();
        let Measured { validation, peak, items, .. } = self.measure(Set::Test, amount, until)?;
        match validation {
            Ok(Some(test)) => {
                let (part, seconds) = (items.filter(|it| it.n < it.of), start.elapsed().as_secs_f64());
                self.journal.log(&[Event::Tested(validated(step, &test, part, peak, seconds))])?;
            }
            Ok(None) | Err(StepError::Interrupted) => (),
            Err(error) => {
                self.journal.warn(&format!("the best model, of step {step}, was not tested: failed to {error}"));
            }
        }
        Ok(())
    }

    /// Takes the model of the best validation instead of the last, where that is another.
    fn take_model_of(&mut self, step: u64) -> Result<(), TrainError> {
        if step == self.step() {
            return Ok(());
        }
        let best = Checkpoint::best(self.journal.path())?;
        self.training.load_model(self.job, &best)
    }
}
