//! What samples come from.

use serde::{Deserialize, Serialize};

/// What some of the samples come from, such as a corpus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedSource {
    /// Its name for people.
    pub name: String,
    /// How many samples it has.
    pub n_samples: u64,
}
