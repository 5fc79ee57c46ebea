//! A step that is not done yet.

use std::time::Instant;

use plimsoll_step::StepRequest;
use plimsoll_types::Knobs;

use crate::job::Job;
use crate::loader::StepSamples;
use crate::source::Source;

/// The samples of a step of a job.
pub(super) type Samples<J> = StepSamples<<<J as Job>::Source as Source>::Buffer>;

/// A step under way.
pub(super) struct UnderWay<J: Job> {
    /// The knobs that it began with.
    pub(super) rung: Knobs,
    pub(super) samples: Samples<J>,
    pub(super) request: StepRequest,
    pub(super) begun: Instant,
}
