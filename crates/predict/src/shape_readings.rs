//! What was read of one shape lately.

use plimsoll_types::Bytes;
use serde::{Deserialize, Serialize};

use crate::recent::{READINGS, Recent};

/// What was read of one shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Readings {
    pub(crate) needs: Recent,
    /// The observation of the key at which it is looked at whether the shape is still worth keeping.
    pub(crate) due: u64,
    /// What a violation lifts the need to for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lifted: Option<Bytes>,
    /// The most that was read of it while it is lifted and that is not learnt.
    #[serde(default, skip_serializing_if = "plimsoll_types::is_zero")]
    pub(crate) met: Bytes,
}

impl Readings {
    /// Returns the need as it counts now.
    pub(crate) fn need(self) -> Bytes {
        Bytes(self.needs.most()).max(self.lifted.map_or(Bytes::ZERO, |it| it.max(self.met)))
    }

    pub(crate) fn push(&mut self, need: Bytes) {
        self.needs.push(need.0, READINGS);
    }
}
