//! What a run knows of its validations.

use plimsoll_types::{Bytes, ItemsMeasured};

use super::unfit::Unfit;
use crate::config::FitConfig;
use crate::validation::{Amount, Clock, ValidationState};

/// How much of a validation is measured, and whether this step has one.
#[derive(Debug)]
pub(super) struct Validations {
    state: ValidationState,
    /// Items that do not fit, and are not run.
    unfit: Option<Unfit>,
    /// Whether the validation of this step is in the log.
    is_done: bool,
    /// Whether a signal has broken one off.
    is_broken_off: bool,
}

impl Validations {
    /// Begins; `budget` is what there is for items that are known not to fit.
    pub(super) fn new(config: &FitConfig, budget: Bytes) -> Self {
        let unfit = config.too_large.validation.map(|edge| Unfit::beyond(edge, budget));
        Self { state: ValidationState::default(), unfit, is_done: false, is_broken_off: false }
    }

    /// Goes on with what a checkpoint says.
    pub(super) fn load(&mut self, state: ValidationState, is_done: bool) {
        (self.state, self.is_done, self.is_broken_off) = (state, is_done, false);
    }

    pub(super) fn state(&self) -> ValidationState {
        self.state
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Whether a signal has broken one off.
    pub(super) fn is_broken_off(&self) -> bool {
        self.is_broken_off
    }

    /// The step of the last validation is over.
    pub(super) fn begin_step(&mut self) {
        self.is_done = false;
    }

    /// The validation of this step is in the log.
    pub(super) fn note_done(&mut self) {
        self.is_done = true;
    }

    /// A signal has broken one off, that had begun or had not.
    pub(super) fn note_broken_off(&mut self, has_begun: bool) {
        self.is_broken_off |= has_begun;
    }

    /// Learns what one took.
    pub(super) fn note(&mut self, items: Option<ItemsMeasured>, seconds: f64) {
        self.state.note(items, seconds);
    }

    /// Returns the longest edge of items that fit, where some are known not to.
    pub(super) fn longest(&self, budget: Bytes) -> Option<u32> {
        self.unfit.as_ref().and_then(|it| it.longest(budget))
    }

    /// Returns how many items the next validation has.
    pub(super) fn amount(&mut self, config: &FitConfig, seconds_of_step: Option<f64>) -> Amount {
        let every = config.validate_every;
        let clock = Clock { step: seconds_of_step, every, steps_between: every.min(config.n_steps) };
        self.state.amount(config.validation_share, config.deterministic, clock)
    }

    /// Returns how many items the test has at the end of a run that took so long.
    pub(super) fn amount_of_test(
        &mut self,
        config: &FitConfig,
        run_seconds: f64,
        seconds_of_step: Option<f64>,
    ) -> Amount {
        let usual = self.amount(config, seconds_of_step);
        if config.deterministic { usual } else { self.state.once(usual, config.validation_share, run_seconds) }
    }

    /// Returns what so many are expected to take, in seconds, once that is known.
    pub(super) fn expected(&self, amount: Amount) -> Option<f64> {
        self.state.expected_next(amount)
    }

    /// Says when the run goes on with other settings than those that the part of the set was chosen for.
    pub(super) fn change(&self, config: &FitConfig) -> Option<String> {
        self.state.change(config.validation_share, config.deterministic, config.validate_every)
    }

    /// Whether the whole set is to be measured at the end of a run that took so long: only a part of it was so far, and the
    /// time for it is there.
    pub(super) fn has_room_for_all(&self, config: &FitConfig, seconds: f64) -> bool {
        !config.deterministic && self.state.has_room_for_all(config.validation_share, seconds)
    }
}
