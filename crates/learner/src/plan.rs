//! What steps may use.

use plimsoll_step::StepRules;
use plimsoll_types::Bytes;

/// What steps may use, and how they are cut.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) capacity: Option<Bytes>,
    pub(crate) rules: StepRules,
}
