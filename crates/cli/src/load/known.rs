//! Which keys there are, and what somebody meant who wrote another.

use config::{Config, File, FileFormat, Map, Value, ValueKind};

use super::{DEFAULTS, config_error, kinds::Kind};
use crate::exit::{UserError, user_error};
use crate::nearest::nearest_keys;
use crate::shell::program;

/// The most of a key that is shown.
const SHOWN: usize = 100;

/// Every key with its default.
pub(super) struct Known(Map<String, Value>);

impl Known {
    pub(super) fn read() -> Result<Self, UserError> {
        let defaults = Config::builder().add_source(File::from_str(DEFAULTS, FileFormat::Toml));
        let tables = defaults.build().and_then(Config::try_deserialize);
        Ok(Self(flatten(tables.map_err(|error| config_error(&error))?)))
    }

    /// Returns what a key takes; one that is unknown takes a text.
    pub(super) fn kind(&self, key: &str) -> Kind {
        self.0.get(key).map_or(Kind::Text, Kind::of)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// Refuses a key that no default documents, with those that may have been meant.
    pub(super) fn check(&self, layer: &str, key: &str) -> Result<(), UserError> {
        if self.has(key) {
            return Ok(());
        }
        let shown: String = key.chars().take(SHOWN).collect();
        let shown = if shown.len() < key.len() { shown + "…" } else { shown };
        let refused = |what: String| Err(user_error(format!("read the configuration from {layer}: {what}")));
        let mut known: Vec<&str> = self.0.keys().map(String::as_str).collect();
        known.sort_unstable();
        if let Some(below) = known.iter().find(|it| it.strip_prefix(key).is_some_and(|it| it.starts_with('.'))) {
            return refused(format!("`{shown}` is a section, not a key; its keys are written as `{below}`"));
        }
        let hint = match nearest_keys(key, &known).as_slice() {
            [] => format!("; `{} config` prints all that are known", program()),
            keys => {
                let keys: Vec<_> = keys.iter().map(|it| format!("`{it}`")).collect();
                format!("; did you mean {}?", keys.join(" or "))
            }
        };
        refused(format!("`{shown}` is no known key{hint}"))
    }

    /// Returns the key that a variable of this name would mean if its underscores were right.
    pub(super) fn of_variable(&self, name: &str) -> Option<&str> {
        let plain = |text: &str| text.to_ascii_lowercase().replace(['.', '_'], "");
        let meant = plain(name);
        self.0.keys().map(String::as_str).find(|key| plain(key) == meant)
    }
}

/// Turns nested tables into dotted keys; a table that is empty stays a value.
pub(super) fn flatten(table: Map<String, Value>) -> Map<String, Value> {
    let mut flat = Map::new();
    for (key, value) in table {
        match value.kind {
            ValueKind::Table(inner) if !inner.is_empty() => {
                flat.extend(flatten(inner).into_iter().map(|(below, value)| (format!("{key}.{below}"), value)));
            }
            _ => drop(flat.insert(key, value)),
        }
    }
    flat
}

/// Turns dotted keys into nested tables again; no key has more than one dot.
pub(super) fn nest(flat: &Map<String, Value>) -> Map<String, Value> {
    let mut nested = Map::new();
    for (key, value) in flat {
        match key.split_once('.') {
            None => drop(nested.insert(key.clone(), value.clone())),
            Some((section, key)) => {
                let table = || Value::new(None, ValueKind::Table(Map::new()));
                let table = nested.entry(section.to_owned()).or_insert_with(table);
                if let ValueKind::Table(table) = &mut table.kind {
                    table.insert(key.to_owned(), value.clone());
                }
            }
        }
    }
    nested
}
