//! What steps may use.

use plimsoll_step::StepRules;
use plimsoll_types::{Bytes, Features};

/// What steps may use, and how they are cut.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) capacity: Option<Bytes>,
    pub(crate) features: Features,
    pub(crate) rules: StepRules,
}
