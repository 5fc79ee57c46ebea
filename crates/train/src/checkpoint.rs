//! Everything that a run needs to go on.

mod background;
mod checksums;
mod folder;
mod rank;
mod weights;

use std::fs;
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::store::ModuleRecord;
use plimsoll_types::Budget;
use serde::{Deserialize, Serialize};

use crate::balance::TaskBalance;
use crate::controller::Controller;
use crate::loader::LoaderPosition;
use crate::resume::{Change, Kept};
use crate::run::Unfit;
use crate::run_dir::{EVENTS_FILE, RunDirError, io_error, log_bytes};
use crate::validation::ValidationState;

pub(crate) use self::background::{Background, Unpublished};
pub use self::folder::Best;
use self::folder::list;
pub(crate) use self::folder::{name, note_best, noted_best, prune, remove_after};
pub(crate) use self::rank::RankState;

const VERSION: u32 = 7;
const MODEL: &str = "model.bpk";
const OPTIMIZER: &str = "optimizer.bpk";
const STATE: &str = "state.json";
const WEIGHTS: &str = "weights.safetensors";

/// The state of a run between two steps, model and optimizer aside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    /// Version of this file.
    pub version: u32,
    /// What must be equal for the checkpoint to fit.
    pub kept: Kept,
    /// Seed of everything random; each step draws from it and its own number.
    pub seed: u64,
    /// Steps done.
    pub step: u64,
    /// Wall time of the run so far, in seconds.
    pub seconds: f64,
    /// Bytes in the log when the state was taken: what follows them is undone when a run goes on from here.
    pub log_bytes: u64,
    /// Whether the validation of this step is among them.
    pub validated: bool,
    /// The validation that was best so far.
    pub best: Option<Best>,
    /// The memory that the policy knows of.
    pub budget: Budget,
    /// Where the next step's samples begin.
    pub position: LoaderPosition,
    /// Samples that the epoch under way has trained on.
    pub epoch_samples: u64,
    /// Predictor and policy.
    pub controller: Controller,
    /// How much each task counts.
    pub balance: TaskBalance,
    /// Samples that are left out because they do not fit.
    pub unfit: Option<Unfit>,
    /// What is known of its validations.
    #[serde(default)]
    pub validation: ValidationState,
}

/// Why a checkpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A file cannot be written or read.
    #[error(transparent)]
    Io(#[from] RunDirError),
    /// There is none.
    #[error("resume {}: it holds no checkpoint", .0.display())]
    None(PathBuf),
    /// None was best in a validation.
    #[error("use {}: it names no checkpoint that was best in a validation; the last one is used without `--best`", .0.display())]
    NoBest(PathBuf),
    /// Not one of them is whole.
    #[error("resume {}: none of its checkpoints is whole: {}", path.display(), reasons.join("; "))]
    AllDamaged {
        /// The run directory.
        path: PathBuf,
        /// What is wrong with each, newest first.
        reasons: Vec<String>,
    },
    /// It belongs to another version of Plimsoll.
    #[error("read {}: it has version {found}, this program writes version {VERSION}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// Tensors cannot be written or read.
    #[error("{action} {}: {reason}", path.display())]
    Record {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// It belongs to a run with other settings.
    #[error(
        "resume from {}: `{}` was {} when the run started and is {} now; leave it, or start a new run",
        path.display(), change.key, change.was, change.now
    )]
    Changed {
        /// The checkpoint.
        path: PathBuf,
        /// The first setting that is not what it was.
        change: Change,
    },
}

impl RunState {
    /// The version that this program writes.
    pub const VERSION: u32 = VERSION;

    /// Writes a checkpoint under a temporary name; [`Unpublished::publish`] makes it one.
    ///
    /// All that is read of the model and of the optimizer is read here: what is left to do needs neither.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`]; earlier checkpoints are untouched then, and nothing of this one stays.
    pub(crate) fn write<M: Module>(
        &self,
        run_dir: &Path,
        model: &M,
        optimizer: &ModuleOptimizer,
        keep: usize,
    ) -> Result<Unpublished, CheckpointError> {
        let folder = folder::unfinished(run_dir)?;
        let unpublished =
            Unpublished { run_dir: run_dir.to_owned(), folder, step: self.step, keep, best: self.best.clone() };
        match self.fill(&unpublished.folder, model, optimizer) {
            Ok(()) => Ok(unpublished),
            Err(error) => Err(unpublished.discarded(error)),
        }
    }

    fn fill<M: Module>(&self, folder: &Path, model: &M, optimizer: &ModuleOptimizer) -> Result<(), CheckpointError> {
        // First, because it reports tensors that cannot be read, of which Burn's record would panic.
        let path = folder.join(WEIGHTS);
        weights::write(&path, model).map_err(|source| io_error("write", &path, source))?;
        // Burn flushes its own files.
        let path = folder.join(MODEL);
        model.clone().into_record().save(&path).map_err(|error| record_error("write", &path, &error))?;
        let path = folder.join(OPTIMIZER);
        optimizer.save(&path).map_err(|error| record_error("write", &path, &error))?;
        let state = serde_json::to_vec(self).unwrap_or_else(|_| unreachable!("numbers and text are always JSON"));
        let path = folder.join(STATE);
        Ok(fs::write(&path, state).map_err(|source| io_error("write", &path, source))?)
    }

    /// Reads the state of a checkpoint; the inner error says what is damaged.
    fn read(folder: &Path) -> Result<Result<Self, String>, CheckpointError> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let path = folder.join(STATE);
        let text = match checksums::verify(folder).and_then(|()| fs::read(&path).map_err(|it| format!("{STATE}: {it}")))
        {
            Ok(text) => text,
            Err(damage) => return Ok(Err(damage)),
        };
        match serde_json::from_slice(&text) {
            Ok(Version { version }) if version != VERSION => Err(CheckpointError::Version { path, found: version }),
            _ => Ok(serde_json::from_slice(&text).map_err(|error| format!("{STATE}: {error}"))),
        }
    }

    /// Says what is wrong with the log that this state belongs to, if anything is.
    fn check_log(&self, run_dir: &Path) -> Result<(), String> {
        let found = log_bytes(run_dir);
        if self.log_bytes <= found {
            return Ok(());
        }
        Err(format!("it belongs to {} bytes of {EVENTS_FILE}, which has only {found}", self.log_bytes))
    }
}

/// A resumable point of a run directory.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    /// The run's state.
    pub state: RunState,
    /// What is wrong with each newer one that was passed over.
    pub passed_over: Vec<String>,
}

impl Checkpoint {
    /// Finds the last whole one that goes with the log, and reads its state.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`] when there is none, all are damaged, or one of the settings is not what it was.
    pub fn last(run_dir: &Path, now: &Kept) -> Result<Self, CheckpointError> {
        let found = Self::newest(run_dir, |_| true, |state| state.check_log(run_dir))?;
        match found.state.kept.change(now) {
            None => Ok(found),
            Some(change) => Err(CheckpointError::Changed { path: found.path, change }),
        }
    }

    /// Reads the state of the one of a step, which another rank has found to be whole.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`] when it is not there, damaged, or a setting that all ranks have in common is not what it was.
    pub(crate) fn of_step(run_dir: &Path, step: u64, now: &Kept) -> Result<Self, CheckpointError> {
        let found = Self::newest(run_dir, |it| it == step, |_| Ok(()))?;
        match found.state.kept.of_any_rank().change(&now.of_any_rank()) {
            None => Ok(found),
            Some(change) => Err(CheckpointError::Changed { path: found.path, change }),
        }
    }

    /// Finds the last whole one, whatever it was made of, and reads its state.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`] when there is none, or all are damaged.
    pub fn of_any(run_dir: &Path) -> Result<Self, CheckpointError> {
        Self::newest(run_dir, |_| true, |_| Ok(()))
    }

    /// Reads the state of the one that was best in a validation.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`] when none was, or it is damaged.
    pub fn best(run_dir: &Path) -> Result<Self, CheckpointError> {
        let best = Self::best_step(run_dir).ok_or_else(|| CheckpointError::NoBest(run_dir.to_owned()))?;
        Self::newest(run_dir, |step| step == best, |_| Ok(()))
    }

    /// Returns the steps that were done before the best validation, where one was.
    pub fn best_step(run_dir: &Path) -> Option<u64> {
        noted_best(run_dir).map(|it| it.step)
    }

    /// Whether a run directory holds any, whole or not.
    pub fn is_any(run_dir: &Path) -> bool {
        !list(run_dir).is_empty()
    }

    fn newest(
        run_dir: &Path,
        is_wanted: impl Fn(u64) -> bool,
        check: impl Fn(&RunState) -> Result<(), String>,
    ) -> Result<Self, CheckpointError> {
        let mut passed_over = Vec::new();
        for (step, path) in list(run_dir).into_iter().rev().filter(|it| is_wanted(it.0)) {
            let read = RunState::read(&path)?.and_then(|state| match state.step {
                is if is == step => check(&state).map(|()| state),
                other => Err(format!("{STATE} is of step {other}")),
            });
            match read {
                Ok(state) => return Ok(Self { path, state, passed_over }),
                Err(damage) => passed_over.push(format!("{}: {damage}", path.display())),
            }
        }
        let path = run_dir.to_owned();
        Err(match passed_over {
            reasons if reasons.is_empty() => CheckpointError::None(path),
            reasons => CheckpointError::AllDamaged { path, reasons },
        })
    }

    /// Puts the recorded tensors into a model and an optimizer.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Record`] when the tensors do not fit.
    pub fn load<M: Module>(
        &self,
        model: M,
        optimizer: ModuleOptimizer,
    ) -> Result<(M, ModuleOptimizer), CheckpointError> {
        let model = self.load_model(model)?;
        let path = self.path.join(OPTIMIZER);
        let optimizer = optimizer.load(&path).map_err(|error| record_error("read", &path, &error))?;
        Ok((model, optimizer))
    }

    /// Puts the recorded tensors into a model.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Record`] when the tensors do not fit.
    pub fn load_model<M: Module>(&self, model: M) -> Result<M, CheckpointError> {
        let path = self.path.join(MODEL);
        let record = ModuleRecord::load(&path).map_err(|error| record_error("read", &path, &error))?;
        model.try_load_record(record).map_err(|error| record_error("read", &path, &error))
    }
}

fn record_error(action: &'static str, path: &Path, error: &dyn std::fmt::Display) -> CheckpointError {
    CheckpointError::Record { action, path: path.to_owned(), reason: error.to_string() }
}

#[cfg(test)]
mod tests;
