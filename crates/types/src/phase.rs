//! What a pass computes.

use serde::{Deserialize, Serialize};

/// Whether a step computes gradients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Forward, backward and optimizer.
    #[default]
    Train,
    /// Forward only: validation and generation.
    Infer,
}
