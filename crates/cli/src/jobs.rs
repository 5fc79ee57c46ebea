//! From a job's name to the job.

mod multitask;
mod padded;
mod sequence;
mod sr;
mod text;

use plimsoll_train::{Job, StopFlag, TrainError};

pub(crate) use self::sr::narrow;
pub(crate) use self::text::TOKENIZER_FILE;
use crate::exit::user_error;
#[cfg(feature = "chaos")]
use crate::faults::watched;
use crate::load::Loaded;
use crate::loading::{Loading, host_memory};
use crate::prepare::Prepared;
use crate::settings::Settings;
use crate::values::JobName;
use crate::{signals, worker};

/// What is done with a job, whichever it is.
pub(crate) trait WithJob {
    type Output;

    fn with<J: Job>(self, prepared: Prepared<J>) -> anyhow::Result<Self::Output>;
}

/// Prepares the configured job with its data, which leave nothing behind, and does something with it.
pub(crate) fn with_job<W: WithJob>(loaded: &Loaded, then: W) -> anyhow::Result<W::Output> {
    let settings = &loaded.settings;
    worker::say_refusals();
    let store =
        tempfile::tempdir().map_err(|error| user_error(format!("failed to make a folder for pixels: {error}")))?;
    let (stop, folder) = (StopFlag::default(), store.path().to_owned());
    signals::watch(&stop)?;
    let _at_once = signals::at_once(move || drop(std::fs::remove_dir_all(folder)));
    with_loaded(settings, Loading::begin(settings, store.path(), stop)?, then)
}

/// Prepares the configured job with its data, and does something with it.
pub(crate) fn with_loaded<W: WithJob>(settings: &Settings, loading: Loading<'_>, then: W) -> anyhow::Result<W::Output> {
    match settings.job {
        JobName::Sr => then.with(watched(ready(settings, sr::prepare(settings, loading)?)?)),
        JobName::Sequence => then.with(watched(ready(settings, sequence::prepare(settings, loading)?)?)),
        JobName::Multitask => then.with(watched(ready(settings, multitask::prepare(settings, loading)?)?)),
        JobName::Text => then.with(watched(ready(settings, text::prepare(settings, loading)?)?)),
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

/// Nobody watches a job outside of tests.
#[cfg(not(feature = "chaos"))]
fn watched<J>(prepared: Prepared<J>) -> Prepared<J> {
    prepared
}
