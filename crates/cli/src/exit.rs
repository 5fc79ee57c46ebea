//! What a failure means for the exit code; `docs/exit-codes.md` is the table for users.

use std::io::{self, ErrorKind};
use std::path::Path;

use plimsoll_plan::{FindError, PlanError};
use plimsoll_probe::ProbeError;
use plimsoll_train::{CheckpointError, LoaderError, RunDirError, StepError, TrainError};

/// The exit code of a failure that is not the user's.
const FAILED: u8 = 1;
/// The exit code of bad input.
const BAD_INPUT: u8 = 2;

/// The exit code when the device is lost to this process, and another one may do better: `EX_TEMPFAIL`.
pub(crate) const POISONED: u8 = 75;

/// What every command's `--help` says of exit codes.
pub(crate) const CODES: &str = "\
Exit codes: 0 done, 1 failed (or a replay that differs), 2 bad input, 75 the device was lost, 101 a fault of the program, \
128 + N ended by signal N. docs/exit-codes.md says more.";

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
        write!(f, "interrupted by signal {}", self.signal)
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

/// Says that a file cannot be written, where the user has said where it is to be.
pub(crate) fn cannot_write(path: &Path, error: &io::Error) -> UserError {
    user_error(format!("write {}: {error}", path.display()))
}

/// Whether a plan fails for what was asked for, and not for what happened meanwhile.
fn is_bad_input(error: &PlanError) -> bool {
    match error {
        PlanError::Step { .. } | PlanError::Predict(_) => false,
        PlanError::Probe(error) => is_bad_device(error),
        PlanError::File { source, .. } => is_bad_place(source),
        _ => true,
    }
}

/// Whether the device that was asked for is not to be had, where nothing says that the system failed.
fn is_bad_device(error: &ProbeError) -> bool {
    !matches!(error, ProbeError::Io { .. } | ProbeError::Driver { .. } | ProbeError::CleanupRefused { .. })
}

/// Whether a file cannot be where it was asked for, or is not what was asked for; what else the system says, as of a disk
/// that is full, is a failure.
fn is_bad_place(error: &io::Error) -> bool {
    use ErrorKind::{
        AlreadyExists, InvalidData, InvalidFilename, InvalidInput, IsADirectory, NotADirectory, NotFound,
        PermissionDenied, ReadOnlyFilesystem,
    };
    matches!(
        error.kind(),
        AlreadyExists
            | InvalidData
            | InvalidFilename
            | InvalidInput
            | IsADirectory
            | NotADirectory
            | NotFound
            | PermissionDenied
            | ReadOnlyFilesystem
    )
}

fn is_bad_run(error: &RunDirError) -> bool {
    if let RunDirError::Io { source, .. } = error { is_bad_place(source) } else { true }
}

/// Returns the exit code of a run that ended early.
fn code_of_run(error: &TrainError) -> u8 {
    use TrainError::{Checkpoint, Loader, OptimizerNeverFits, Predict, Probe, RunDir, Step, Validation};
    let is_users = match error {
        Step { source: StepError::Poisoned(_), .. } | Validation { source: StepError::Poisoned(_), .. } => {
            return POISONED;
        }
        Step { source, .. } | Validation { source, .. } => {
            matches!(source, StepError::NeverFits { .. } | StepError::SumNeverFits { .. })
        }
        RunDir(error) | Checkpoint(CheckpointError::Io(error)) => is_bad_run(error),
        Probe(error) => is_bad_device(error),
        OptimizerNeverFits { .. } | Predict(_) | Loader(LoaderError::WorkerPanicked(_)) => false,
        _ => true,
    };
    if is_users { BAD_INPUT } else { FAILED }
}

/// Returns the exit code of an error.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    if let Some(Interrupted { signal }) = error.downcast_ref() {
        return signalled(*signal);
    }
    match error.downcast_ref::<TrainError>() {
        Some(error) => code_of_run(error),
        None if error.is::<UserError>() => BAD_INPUT,
        None if error.downcast_ref::<PlanError>().is_some_and(is_bad_input) => BAD_INPUT,
        None if error.downcast_ref::<ProbeError>().is_some_and(is_bad_device) => BAD_INPUT,
        None if error.downcast_ref::<io::Error>().is_some_and(is_bad_place) => BAD_INPUT,
        None if matches!(error.downcast_ref(), Some(FindError::Finder(_))) => BAD_INPUT,
        None if matches!(error.downcast_ref(), Some(FindError::Plan(it)) if is_bad_input(it)) => BAD_INPUT,
        None => FAILED,
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_types::Bytes;

    use super::*;

    #[track_caller]
    fn check(error: impl Into<TrainError>, code: u8) {
        let error = error.into();
        let text = error.to_string();
        assert_eq!(exit_code(&error.into()), code, "{text}");
    }

    fn write(kind: ErrorKind) -> RunDirError {
        RunDirError::Io { action: "write", path: "run".into(), source: kind.into() }
    }

    #[test]
    fn what_the_system_fails_to_do_is_no_bad_input() {
        for kind in [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::Other] {
            check(write(kind), FAILED);
            check(CheckpointError::Io(write(kind)), FAILED);
            let plan = PlanError::File { action: "write", path: "plan.json".into(), source: kind.into() };
            assert_eq!(exit_code(&plan.into()), FAILED, "{kind}");
        }
        for kind in [ErrorKind::PermissionDenied, ErrorKind::NotADirectory, ErrorKind::ReadOnlyFilesystem] {
            check(write(kind), BAD_INPUT);
        }
        let unread = || ProbeError::Io { path: "/proc/meminfo".into(), source: ErrorKind::Other.into() };
        check(unread(), FAILED);
        assert_eq!(exit_code(&unread().into()), FAILED);
        let missing = || ProbeError::NoDevice { device: "cuda:1".to_owned(), available: 1 };
        check(missing(), BAD_INPUT);
        assert_eq!(exit_code(&missing().into()), BAD_INPUT);
    }

    #[test]
    fn a_file_that_cannot_be_there_is_bad_input_whoever_says_so() {
        use anyhow::Context;
        let failed = |kind: ErrorKind| Err::<(), _>(io::Error::from(kind)).context("write plan.json").unwrap_err();
        assert_eq!(exit_code(&failed(ErrorKind::NotFound)), BAD_INPUT);
        assert_eq!(exit_code(&failed(ErrorKind::StorageFull)), FAILED);
    }

    #[test]
    fn settings_that_a_policy_refuses_are_bad_input() {
        use plimsoll_policy::{Bounds, ladder};
        let refused = ladder(&Bounds { batch_max: 0, ..Bounds::default() }).unwrap_err();
        check(plimsoll_train::ControllerError::from(refused), BAD_INPUT);
    }

    #[test]
    fn the_table_for_users_has_every_code() {
        let table = include_str!("../../../docs/exit-codes.md");
        let rows: Vec<_> = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).collect();
        let expected = [
            "0".to_owned(),
            FAILED.to_string(),
            BAD_INPUT.to_string(),
            POISONED.to_string(),
            "101".to_owned(),
            signalled(2).to_string(),
            signalled(6).to_string(),
            signalled(15).to_string(),
        ];
        assert_eq!(rows.iter().map(|(code, _)| *code).collect::<Vec<_>>(), expected);
        for code in [FAILED, BAD_INPUT, POISONED] {
            assert!(CODES.contains(&format!(" {code} ")), "{CODES}");
        }
    }

    #[test]
    fn an_optimizer_that_never_fits_is_a_failure_of_the_run() {
        check(TrainError::OptimizerNeverFits { step: 3, peak: None, capacity: Bytes::gib(1) }, FAILED);
        check(RunDirError::NoRun("run".into()), BAD_INPUT);
    }
}
