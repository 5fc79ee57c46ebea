//! From a job's name to the job.

mod multitask;
mod padded;
mod sequence;
mod sr;
mod text;

use std::error::Error;

use plimsoll_train::{Job, StopFlag};

pub(crate) use self::text::TOKENIZER_FILE;
use crate::exit::{UserError, describe, user_error};
#[cfg(feature = "chaos")]
use crate::faults::watched;
use crate::load::Loaded;
use crate::loading::Loading;
use crate::prepare::Prepared;
use crate::settings::Settings;
use crate::values::JobName;

/// What is done with a job, whichever it is.
pub(crate) trait WithJob {
    type Output;

    fn with<J: Job>(self, prepared: Prepared<J>) -> anyhow::Result<Self::Output>;
}

/// Prepares the configured job with its data, which leave nothing behind, and does something with it.
pub(crate) fn with_job<W: WithJob>(loaded: &Loaded, then: W) -> anyhow::Result<W::Output> {
    let settings = &loaded.settings;
    let store =
        tempfile::tempdir().map_err(|error| user_error(format!("failed to make a folder for pixels: {error}")))?;
    with_loaded(settings, Loading::begin(settings, store.path(), StopFlag::default())?, then)
}

/// Prepares the configured job with its data, and does something with it.
pub(crate) fn with_loaded<W: WithJob>(settings: &Settings, loading: Loading<'_>, then: W) -> anyhow::Result<W::Output> {
    match settings.job {
        JobName::Sr => then.with(watched(sr::prepare(settings, loading)?)),
        JobName::Sequence => then.with(watched(sequence::prepare(settings, loading)?)),
        JobName::Multitask => then.with(watched(multitask::prepare(settings, loading)?)),
        JobName::Text => then.with(watched(text::prepare(settings, loading)?)),
    }
}

/// Nobody watches a job outside of tests.
#[cfg(not(feature = "chaos"))]
fn watched<J>(prepared: Prepared<J>) -> Prepared<J> {
    prepared
}

fn data_error(error: &(dyn Error + 'static)) -> UserError {
    user_error(describe(error))
}
