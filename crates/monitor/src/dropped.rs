//! Samples that no step has taken, since what was left of their epoch made no whole one.

use serde::{Deserialize, Serialize};

/// Samples that were dropped at the ends of epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedReport {
    /// Of all epochs that ended.
    pub samples: u64,
    /// Of the epoch that lost the fewest.
    pub least: u64,
    /// Of the one that lost the most.
    pub most: u64,
}

impl DroppedReport {
    /// Counts an epoch that has ended in addition to those before it.
    pub(crate) fn with(before: Option<Self>, dropped: u64) -> Self {
        let Self { samples, least, most } = before.unwrap_or(Self { samples: 0, least: dropped, most: dropped });
        Self { samples: samples.saturating_add(dropped), least: least.min(dropped), most: most.max(dropped) }
    }

    /// Says so in a line.
    pub(crate) fn line(self) -> String {
        let Self { samples, least, most } = self;
        let each = if least == most { most.to_string() } else { format!("{least} to {most}") };
        format!("{samples}: {each} of each epoch, which made no whole step")
    }
}
