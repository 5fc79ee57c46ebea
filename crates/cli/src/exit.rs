//! What a failure means for the exit code.

use plimsoll_plan::PlanError;
use plimsoll_train::{FindError, LoaderError, StepError, TrainError};

/// The exit code of a failure that is not the user's.
const FAILED: u8 = 1;
/// The exit code of bad input.
const BAD_INPUT: u8 = 2;

/// The exit code when the device is lost to this process, and another one may do better: `EX_TEMPFAIL`.
pub(crate) const POISONED: u8 = 75;

/// What is added to a signal that ended the program.
pub(crate) const SIGNALLED: i32 = 128;

/// Bad input: what is wrong, where, and what would be right.
#[derive(Debug)]
pub(crate) struct UserError(String);

/// A wish to end that came before there was anything to keep.
#[derive(Debug)]
pub(crate) struct Interrupted {
    /// The signal.
    pub(crate) signal: i32,
}

impl std::fmt::Display for UserError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UserError {}

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "load the data: interrupted by signal {}", self.signal)
    }
}

impl std::error::Error for Interrupted {}

/// Writes an error with its causes, leaving out those that it repeats.
pub(crate) fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |it| it.source());
    causes
        .map(ToString::to_string)
        .fold(error.to_string(), |text, cause| if text.contains(&cause) { text } else { format!("{text}: {cause}") })
}

/// Returns the exit code of what a signal has ended.
pub(crate) fn signalled(signal: i32) -> u8 {
    u8::try_from(SIGNALLED + signal).unwrap_or(FAILED)
}

/// Makes a [`UserError`].
pub(crate) fn user_error(message: impl Into<String>) -> UserError {
    UserError(message.into())
}

/// Whether a plan fails for what was asked for, and not for what happened meanwhile.
fn is_bad_input(error: &PlanError) -> bool {
    !matches!(error, PlanError::Step { .. } | PlanError::Predict(_) | PlanError::Probe(_))
}

/// Returns the exit code of an error.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    if let Some(Interrupted { signal }) = error.downcast_ref() {
        return signalled(*signal);
    }
    match error.downcast_ref::<TrainError>() {
        Some(TrainError::Step { source, .. } | TrainError::Validation { source, .. }) => match source {
            StepError::NeverFits { .. } | StepError::SumNeverFits { .. } => BAD_INPUT,
            StepError::Poisoned(_) => POISONED,
            _ => FAILED,
        },
        Some(TrainError::Predict(_) | TrainError::Loader(LoaderError::WorkerPanicked(_))) => FAILED,
        Some(_) => BAD_INPUT,
        None if error.is::<UserError>() => BAD_INPUT,
        None if error.downcast_ref::<PlanError>().is_some_and(is_bad_input) => BAD_INPUT,
        None if matches!(error.downcast_ref(), Some(FindError::Finder(_))) => BAD_INPUT,
        None if matches!(error.downcast_ref(), Some(FindError::Plan(it)) if is_bad_input(it)) => BAD_INPUT,
        None => FAILED,
    }
}
