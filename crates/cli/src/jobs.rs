//! From a job's name to the job.

mod multitask;
mod padded;
mod sequence;
mod sr;
mod text;

use anyhow::Context;
use plimsoll_train::{Job, StopFlag, TrainError};
use tempfile::TempDir;

pub(crate) use self::multitask::scarce;
pub(crate) use self::sr::narrow;
pub(crate) use self::text::TOKENIZER_FILE;
use crate::harness::Harness;
use crate::load::Loaded;
use crate::loading::{Loading, host_memory};
use crate::prepare::Prepared;
use crate::settings::Settings;
use crate::signals::AtOnce;
use crate::values::JobName;
use crate::{signals, worker};

/// What a run's model takes and gives, in its directory; a checkpoint says neither.
pub(crate) const SIGNATURE_FILE: &str = "signature.json";

/// What is done with a job, whichever it is.
pub(crate) trait WithJob {
    type Output;

    fn with<J: Job>(self, prepared: Prepared<J>) -> anyhow::Result<Self::Output>;
}

/// Prepares the configured job with its data, which leave nothing behind, and does something with it.
pub(crate) fn with_job<W: WithJob>(
    harness: &'static dyn Harness,
    loaded: &Loaded,
    then: W,
) -> anyhow::Result<W::Output> {
    let settings = &loaded.settings;
    worker::say_refusals();
    let store = PixelFolder::make()?;
    with_loaded(settings, store.loading(harness, settings)?, then)
}

/// A folder for decoded pixels that goes when it is dropped, and at a signal, which ends the process at once.
pub(crate) struct PixelFolder {
    // Dropped first: from then on nobody else removes the folder.
    _at_once: AtOnce,
    stop: StopFlag,
    folder: TempDir,
}

impl PixelFolder {
    pub(crate) fn make() -> anyhow::Result<Self> {
        let (stop, folder) = (StopFlag::default(), tempfile::tempdir().context("make a folder for pixels")?);
        let path = folder.path().to_owned();
        let at_once = signals::at_once(move || drop(std::fs::remove_dir_all(path)));
        signals::watch(&stop)?;
        Ok(Self { _at_once: at_once, stop, folder })
    }

    /// Begins to load data, whose pixels go there.
    pub(crate) fn loading(&self, harness: &'static dyn Harness, settings: &Settings) -> anyhow::Result<Loading<'_>> {
        Loading::begin(harness, settings, self.folder.path(), self.stop.clone())
    }
}

/// Prepares the configured job with its data, and does something with it.
pub(crate) fn with_loaded<W: WithJob>(settings: &Settings, loading: Loading<'_>, then: W) -> anyhow::Result<W::Output> {
    match settings.job {
        JobName::Sr => then.with(ready(settings, sr::prepare(settings, loading)?)?),
        JobName::Sequence => then.with(ready(settings, sequence::prepare(settings, loading)?)?),
        JobName::Multitask => then.with(ready(settings, multitask::prepare(settings, loading)?)?),
        JobName::Text => then.with(ready(settings, text::prepare(settings, loading)?)?),
    }
}

/// Draws the line, and gives the samples that wait for a step the memory that they may hold.
fn ready<J: Job>(settings: &Settings, prepared: Prepared<J>) -> anyhow::Result<Prepared<J>> {
    let mut prepared = below_line(prepared)?;
    let (source, loader) = (prepared.job.source(), &mut prepared.loader);
    let checked = match settings.data.buffer_limit.0 {
        Some(_) => loader.check_limit(&*source),
        None => {
            loader.ample_limit(&*source, host_memory(settings, prepared.capacity)).map(|it| loader.buffer_limit = it)
        }
    };
    checked.map_err(TrainError::from)?;
    Ok(prepared)
}

/// Refuses from now on what the machine has no room for, where it would not refuse by itself.
///
/// Trials are certain to fit, but for the smallest: that one may pass a capacity that was set, but not the machine's.
fn below_line<J>(mut prepared: Prepared<J>) -> anyhow::Result<Prepared<J>> {
    prepared.probe.draw_line(None).map_err(TrainError::from)?;
    Ok(prepared)
}
