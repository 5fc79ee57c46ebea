//! From a job's name to the job.

mod multitask;
mod padded;
mod sequence;
mod sr;
mod text;

use std::error::Error;

use plimsoll_train::Job;

pub(crate) use self::text::TOKENIZER_FILE;
use crate::exit::{UserError, describe, user_error};
#[cfg(feature = "chaos")]
use crate::faults::watched;
use crate::load::Loaded;
use crate::prepare::Prepared;
use crate::values::JobName;

/// What is done with a job, whichever it is.
pub(crate) trait WithJob {
    type Output;

    fn with<J: Job>(self, prepared: Prepared<J>) -> anyhow::Result<Self::Output>;
}

/// Prepares the configured job, and does something with it.
pub(crate) fn with_job<W: WithJob>(loaded: &Loaded, then: W) -> anyhow::Result<W::Output> {
    let settings = &loaded.settings;
    match settings.job {
        JobName::Sr => then.with(watched(sr::prepare(settings)?)),
        JobName::Sequence => then.with(watched(sequence::prepare(settings)?)),
        JobName::Multitask => then.with(watched(multitask::prepare(settings)?)),
        JobName::Text => then.with(watched(text::prepare(settings)?)),
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
