//! From flags to layers of the configuration.

use std::path::{Path, PathBuf};

use super::{ConfigArgs, DataArgs, DeterminismArgs, PlaceArgs, ProbeArgs, RunArgs, StepsArgs};
use crate::exit::{UserError, user_error};
use crate::load::{Given, Layers};

impl PlaceArgs {
    /// Returns the values of the configuration that the flags name.
    pub(crate) fn flags(&self) -> Vec<Given> {
        let named = [("--capacity", "memory.capacity", &self.capacity), ("--device", "device", &self.device)];
        let given = |(flag, key, text): (&str, &str, &Option<String>)| Some(Given::by_flag(flag, key, text.clone()?));
        named.into_iter().filter_map(given).collect()
    }
}

impl ProbeArgs {
    /// Returns the layers that the flags make.
    pub(crate) fn layers(&self) -> Layers {
        let capacity = self.capacity.clone().or_else(|| self.config.is_none().then(|| "device".to_owned()));
        let named = [("--capacity", "memory.capacity", capacity), ("--device", "device", self.device.clone())];
        let given = |(flag, key, text): (&str, &str, Option<String>)| Some(Given::by_flag(flag, key, text?));
        Layers {
            files: self.config.iter().cloned().collect(),
            flags: named.into_iter().filter_map(given).collect(),
            ..Layers::default()
        }
    }
}

impl DataArgs {
    /// Returns the layers of configuration with the job and its folder.
    pub(crate) fn layers(&self) -> Result<Layers, UserError> {
        let folder = self.folder.as_deref().map(|it| data_folder("FOLDER", it)).transpose()?;
        let named = [("JOB", "job", Some(self.job.clone())), ("FOLDER", "data.folder", folder)];
        Ok(Layers {
            files: self.config.iter().cloned().collect(),
            sets: self.set.clone(),
            flags: named.into_iter().filter_map(|(name, key, text)| Some(Given::by_flag(name, key, text?))).collect(),
        })
    }
}

impl ConfigArgs {
    /// Returns the device, where a flag names it.
    pub(crate) fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// Returns the layers that the flags make; a resumed run's own configuration lies below them.
    pub(crate) fn layers(&self, resumed: Option<PathBuf>) -> Result<Layers, UserError> {
        let data = self.data.as_deref().map(|it| data_folder("--data", it)).transpose()?;
        let flags = [
            ("--job", "job", self.job.clone()),
            ("--data", "data.folder", data),
            ("--capacity", "memory.capacity", self.capacity.clone()),
            ("--device", "device", self.device.clone()),
            ("--seed", "seed", self.seed.clone()),
        ];
        Ok(Layers {
            files: resumed.into_iter().chain(self.config.clone()).collect(),
            sets: self.set.clone(),
            flags: flags.into_iter().filter_map(|(flag, key, text)| Some(Given::by_flag(flag, key, text?))).collect(),
        })
    }
}

impl StepsArgs {
    pub(crate) fn given(&self) -> Option<Given> {
        Some(Given::by_flag("--steps", "train.steps", self.steps.clone()?))
    }
}

impl DeterminismArgs {
    pub(crate) fn given(&self) -> Option<Given> {
        self.deterministic.then(|| Given::by_flag("--deterministic", "train.deterministic", "true".to_owned()))
    }
}

impl RunArgs {
    /// Returns the layers that the flags make; a resumed run's own configuration lies below them.
    pub(crate) fn layers(&self, resumed: Option<PathBuf>) -> Result<Layers, UserError> {
        Ok(self.config.layers(resumed)?.with(self.steps.given()).with(self.determinism.given()))
    }
}

/// Returns a path as the configuration keeps it; that is a text, which not every path is.
fn data_folder(name: &str, path: &Path) -> Result<String, UserError> {
    let text = absolute(path).into_os_string().into_string();
    text.map_err(|_| {
        user_error(format!(
            "read `{name} {}`: the path is not UTF-8, which a configuration is; rename the folder, or name it by a link",
            path.display()
        ))
    })
}

/// A path that still holds when the run is resumed from another folder; where that cannot be told it stays as it is.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
