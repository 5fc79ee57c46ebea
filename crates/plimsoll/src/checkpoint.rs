//! A step that another process goes on with.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use burn::module::Module;
use burn::store::{ModuleRecord, RecordError};
use plimsoll_files::{Checksum, sync_file, whole_folder, write_whole, write_whole_folder};
use plimsoll_step::{Shown, StepError, or_put_back};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::average::Average;
use crate::error::Error;
use crate::scale::LossScale;
use crate::step::Step;

const VERSION: u32 = 1;
const MODEL: &str = "model.bpk";
const OPTIMIZER: &str = "optimizer.bpk";
const AVERAGE: &str = "average.bpk";
const STATE: &str = "state.json";

/// What a checkpoint holds beside tensors; written last.
#[derive(Serialize, Deserialize)]
struct State<S> {
    version: u32,
    n_steps: u64,
    n_skipped: u64,
    loss_scale: Option<LossScale>,
    shown: Shown,
    /// The same of each other device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    shown_elsewhere: Vec<Shown>,
    /// What each other file is recognised by.
    files: BTreeMap<String, Checksum>,
    program: S,
}

impl<M: Module> Step<M> {
    /// Writes a checkpoint: a folder with the weights, the state of the optimizer and the average as Burn's own records, what
    /// steps have shown of their needs, and `program`, which is whatever the program needs besides to go on, such as its epoch
    /// and its position in the data.
    ///
    /// The folder has its name only when all of it is on the disk; a checkpoint of that name is there until then.
    /// What a forward pass changes in a model is saved as the last step left it.
    /// A run that goes on is the same to the bit where its parts are: with a fixed `micro_batch` or in one part, and with a
    /// `seed` where something is random; else parts follow the memory that each process finds.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] where weights cannot be read any more, [`Error::Save`]; a checkpoint of that name is untouched then.
    pub fn save(&self, path: impl AsRef<Path>, program: &impl Serialize) -> Result<(), Error> {
        let path = path.as_ref();
        if !self.is_whole()? {
            return Err(Error::Lost(path.to_owned()));
        }
        let failed = |source| Error::Save { path: path.to_owned(), source };
        write_whole_folder(path, |folder| {
            let mut files = vec![MODEL, OPTIMIZER];
            self.model().clone().into_record().save(folder.join(MODEL)).map_err(io::Error::other)?;
            self.optimizer().save(folder.join(OPTIMIZER)).map_err(io::Error::other)?;
            if let Some(average) = self.average() {
                average.clone().into_record().save(folder.join(AVERAGE)).map_err(io::Error::other)?;
                files.push(AVERAGE);
            }
            let flushed = |name: &str| {
                let path = folder.join(name);
                sync_file(&path).and_then(|()| Ok((name.to_owned(), Checksum::of(&path)?)))
            };
            let state = State {
                version: VERSION,
                n_steps: self.n_steps,
                n_skipped: self.n_skipped,
                loss_scale: self.scale,
                shown: self.steps.needs().shown().clone(),
                shown_elsewhere: self.steps.guarded().others().iter().map(|it| it.needs().shown().clone()).collect(),
                files: files.into_iter().map(flushed).collect::<io::Result<_>>()?,
                program,
            };
            write_whole(&folder.join(STATE), &serde_json::to_vec(&state)?)
        })
        .map_err(failed)
    }

    /// Goes on from a checkpoint, with a step that was built as the one that wrote it, and returns what the program had put
    /// into it.
    ///
    /// In a build for several devices Burn reads the optimizer's state onto its default device; it moves at the next step.
    ///
    /// # Errors
    ///
    /// [`Error::Load`] where there is none, it is damaged, or it is one of another model or program, before anything has
    /// changed; [`StepError::Damaged`] where the model is lost: [`Self::restore`] puts a fresh one in its place first.
    pub fn load<S: DeserializeOwned>(&mut self, path: impl AsRef<Path>) -> Result<S, Error> {
        if self.state.is_lost() {
            return Err(StepError::Damaged.into());
        }
        let failed = |path: &Path, reason: String| Error::Load { path: path.to_owned(), reason };
        let path = path.as_ref();
        let folder = whole_folder(path).ok_or_else(|| failed(path, "there is no checkpoint".to_owned()))?;
        let state: State<S> = read_state(&folder.join(STATE)).map_err(|reason| failed(&folder.join(STATE), reason))?;
        for (name, noted) in &state.files {
            let path = folder.join(name);
            let found = Checksum::of(&path).map_err(|error| failed(&path, error.to_string()))?;
            if found != *noted {
                return Err(failed(&path, format!("it is damaged: it has {found}, not {noted}")));
            }
        }
        let (has, keeps) = (state.files.contains_key(AVERAGE), self.decay.is_some());
        if has != keeps {
            let reason = if has {
                "holds an average, and this step keeps none"
            } else {
                "holds no average, and this step keeps one"
            };
            return Err(failed(&folder.join(STATE), format!("it {reason}")));
        }
        let unfit = |path: &Path, error: &RecordError| failed(path, error.to_string());
        let load = |model: M, name: &str| {
            let path = folder.join(name);
            let record = ModuleRecord::load(&path).map_err(|error| unfit(&path, &error))?;
            model.try_load_record(record).map_err(|error| failed(&path, error.to_string()))
        };
        let optimizer = folder.join(OPTIMIZER);
        let optimizer = self.optimizer().clone().load(&optimizer).map_err(|error| unfit(&optimizer, &error))?;
        let average = match self.decay.filter(|_| state.files.contains_key(AVERAGE)) {
            Some(decay) => Some(Average::of(decay, load(self.model().valid(), AVERAGE)?)),
            None => None,
        };
        let model = or_put_back(self.model(), || load(self.model().clone(), MODEL))?;
        self.restore(model, optimizer);
        self.steps.recall(state.shown, state.shown_elsewhere, 0 < state.n_steps);
        (self.average, self.n_steps, self.n_skipped) = (average, state.n_steps, state.n_skipped);
        self.scale = self.scale.map(|scale| state.loss_scale.unwrap_or(scale));
        Ok(state.program)
    }
}

fn read_state<S: DeserializeOwned>(path: &Path) -> Result<State<S>, String> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let text = fs::read(path).map_err(|error| error.to_string())?;
    let Version { version } = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    if version != VERSION {
        return Err(format!("it has version {version}, this program reads version {VERSION}"));
    }
    serde_json::from_slice(&text).map_err(|error| error.to_string())
}
