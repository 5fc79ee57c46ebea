//! From a job's name to the job.

mod sr;

use plimsoll_train::Job;

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
    match loaded.settings.job {
        JobName::Sr => then.with(sr::prepare(&loaded.settings)?),
    }
}
