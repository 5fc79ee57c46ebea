//! What to change, and what it would help.

use serde::{Deserialize, Serialize};

/// A change of the configuration that would help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingChange {
    /// The key.
    pub setting: String,
    /// What to do with it.
    pub change: String,
    /// What was measured that speaks for it.
    pub figure: String,
}

impl SettingChange {
    pub(crate) fn new(setting: &str, change: &str, figure: String) -> Self {
        Self { setting: setting.to_owned(), change: change.to_owned(), figure }
    }
}
