//! Everything that a run needs to go on.

use std::fs;
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::store::ModuleRecord;
use serde::{Deserialize, Serialize};

use crate::balance::TaskBalance;
use crate::controller::Controller;
use crate::loader::LoaderPosition;
use crate::run_dir::{RunDirError, io_error, write_atomically};

const FOLDER: &str = "checkpoints";
const VERSION: u32 = 2;

/// The state of a run between two steps, model and optimizer aside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    /// Version of this file.
    pub version: u32,
    /// What must be equal for the checkpoint to fit: job, model and data.
    pub fingerprint: String,
    /// Steps done.
    pub step: u64,
    /// Wall time of the run so far, in seconds.
    pub seconds: f64,
    /// Where the next step's samples begin.
    pub position: LoaderPosition,
    /// Samples that the epoch under way has trained on.
    pub epoch_samples: u64,
    /// Predictor and policy.
    pub controller: Controller,
    /// How much each task counts.
    pub balance: TaskBalance,
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
    /// The state cannot be read.
    #[error("read {}: {source}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
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
    /// It was made of something else.
    #[error("resume from {}: it belongs to `{found}`, the configuration asks for `{wanted}`", path.display())]
    Mismatch {
        /// The checkpoint.
        path: PathBuf,
        /// What it was made of.
        found: String,
        /// What is asked for.
        wanted: String,
    },
}

impl RunState {
    /// The version that this program writes.
    pub const VERSION: u32 = VERSION;

    /// Writes a checkpoint under a temporary name, renames it, and removes all but the last `keep`.
    ///
    /// Returns its path inside the run directory.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`]; earlier checkpoints are untouched then.
    pub fn save<M: Module>(
        &self,
        run_dir: &Path,
        model: &M,
        optimizer: &ModuleOptimizer,
        keep: usize,
    ) -> Result<String, CheckpointError> {
        let name = format!("{FOLDER}/step-{:08}", self.step);
        let (path, temporary) = (run_dir.join(&name), run_dir.join(FOLDER).join("unfinished"));
        remove(&temporary)?;
        fs::create_dir_all(&temporary).map_err(|source| io_error("create", &temporary, source))?;
        self.fill(&temporary, model, optimizer)?;
        remove(&path)?;
        fs::rename(&temporary, &path).map_err(|source| io_error("write", &path, source))?;
        let all = list(run_dir);
        for old in all.iter().rev().skip(keep.max(1)) {
            remove(old)?;
        }
        Ok(name)
    }

    fn fill<M: Module>(&self, folder: &Path, model: &M, optimizer: &ModuleOptimizer) -> Result<(), CheckpointError> {
        let model_path = folder.join("model.bpk");
        let saved = model.clone().into_record().save(&model_path);
        saved.map_err(|error| record_error("write", &model_path, &error))?;
        let optimizer_path = folder.join("optimizer.bpk");
        optimizer.save(&optimizer_path).map_err(|error| record_error("write", &optimizer_path, &error))?;
        for path in [&model_path, &optimizer_path] {
            let synced = fs::File::open(path).and_then(|file| file.sync_all());
            synced.map_err(|source| io_error("write", path, source))?;
        }
        let path = folder.join("state.json");
        let json = serde_json::to_vec(self).map_err(|source| CheckpointError::State { path: path.clone(), source })?;
        Ok(write_atomically(&path, &json)?)
    }
}

/// The last checkpoint of a run directory.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    /// The run's state.
    pub state: RunState,
}

impl Checkpoint {
    /// Finds the last one and reads its state.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`] when there is none, or it belongs to something other than `fingerprint`.
    pub fn last(run_dir: &Path, fingerprint: &str) -> Result<Self, CheckpointError> {
        let Self { path, state } = Self::of_any(run_dir)?;
        if state.fingerprint != fingerprint {
            let (found, wanted) = (state.fingerprint, fingerprint.to_owned());
            return Err(CheckpointError::Mismatch { path, found, wanted });
        }
        Ok(Self { path, state })
    }

    /// Finds the last one, whatever it was made of, and reads its state.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`] when there is none, or it cannot be read.
    pub fn of_any(run_dir: &Path) -> Result<Self, CheckpointError> {
        let path = list(run_dir).pop().ok_or_else(|| CheckpointError::None(run_dir.to_owned()))?;
        let file = path.join("state.json");
        let text = fs::read(&file).map_err(|source| io_error("read", &file, source))?;
        let state: RunState =
            serde_json::from_slice(&text).map_err(|source| CheckpointError::State { path: file.clone(), source })?;
        if state.version != VERSION {
            return Err(CheckpointError::Version { path: file, found: state.version });
        }
        Ok(Self { path, state })
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
        let path = self.path.join("optimizer.bpk");
        let optimizer = optimizer.load(&path).map_err(|error| record_error("read", &path, &error))?;
        Ok((model, optimizer))
    }

    /// Puts the recorded tensors into a model.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Record`] when the tensors do not fit.
    pub fn load_model<M: Module>(&self, model: M) -> Result<M, CheckpointError> {
        let path = self.path.join("model.bpk");
        let record = ModuleRecord::load(&path).map_err(|error| record_error("read", &path, &error))?;
        model.try_load_record(record).map_err(|error| record_error("read", &path, &error))
    }
}

/// Returns the checkpoints, oldest first.
fn list(run_dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(run_dir.join(FOLDER)).into_iter().flatten().flatten();
    let is_checkpoint = |path: &PathBuf| path.file_name().is_some_and(|it| it.to_string_lossy().starts_with("step-"));
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).filter(is_checkpoint).collect();
    paths.sort();
    paths
}

fn remove(folder: &Path) -> Result<(), CheckpointError> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|source| io_error("delete", folder, source))?;
    }
    Ok(())
}

fn record_error(action: &'static str, path: &Path, error: &dyn std::fmt::Display) -> CheckpointError {
    CheckpointError::Record { action, path: path.to_owned(), reason: error.to_string() }
}
