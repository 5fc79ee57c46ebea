//! Values that are given one by one: by variables, `--set` and flags.

use std::ffi::OsString;

use config::ValueKind;

use super::known::Known;
use super::refuse_deep;
use crate::exit::{UserError, user_error};

/// What the name of a variable that is a setting begins with.
const PREFIX: &str = "PLIMSOLL__";

/// A value, and where it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(super) layer: String,
    pub(super) key: String,
    pub(super) value: ValueKind,
}

impl Given {
    /// Takes what a flag says as it stands.
    pub(crate) fn by_flag(flag: &str, key: &str, text: String) -> Self {
        Self { layer: flag.to_owned(), key: key.to_owned(), value: ValueKind::String(text) }
    }

    /// Returns the same as the key takes it.
    pub(super) fn read(&self, known: &Known) -> Self {
        let value = known.kind(&self.key).read(&self.value.to_string());
        Self { value, ..self.clone() }
    }
}

/// Reads the variables that are settings.
pub(super) fn variables(
    variables: impl Iterator<Item = (OsString, OsString)>,
    known: &Known,
) -> Result<Vec<Given>, UserError> {
    let mut given = Vec::new();
    for (name, value) in variables {
        let name = name.to_string_lossy().into_owned();
        let Some(key) = name.strip_prefix(PREFIX) else {
            refuse_misspelt(&name, known)?;
            continue;
        };
        refuse_deep("the environment", name.matches("__").count())?;
        let (layer, key) = (format!("the environment ({name})"), key.to_ascii_lowercase().replace("__", "."));
        known.check(&layer, &key)?;
        let Some(text) = value.to_str() else {
            return Err(user_error(format!("read the configuration from {layer}: its value is not UTF-8")));
        };
        given.push(Given { layer, value: known.kind(&key).read(text), key });
    }
    Ok(given)
}

/// Refuses a variable that would be a setting with other underscores, and does nothing as it is.
fn refuse_misspelt(name: &str, known: &Known) -> Result<(), UserError> {
    let Some(key) = name.strip_prefix("PLIMSOLL_").and_then(|rest| known.of_variable(rest)) else { return Ok(()) };
    let meant = key.to_ascii_uppercase().replace('.', "__");
    Err(user_error(format!("read the configuration from the environment: {name} is no setting; write {PREFIX}{meant}")))
}

/// Reads `KEY=VALUE`; a text may have quotes around it.
pub(super) fn set(set: &str, known: &Known) -> Result<Given, UserError> {
    let Some((key, text)) = set.split_once('=') else {
        return Err(user_error(format!("read `--set {set}`: write KEY=VALUE, as in `--set memory.target=0.8`")));
    };
    let (key, text) = (key.trim(), text.trim());
    let layer = "--set";
    refuse_deep(layer, key.matches(['.', '[', '{']).count())?;
    known.check(layer, key)?;
    let within = text.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    let value = known.kind(key).read(within.unwrap_or(text));
    Ok(Given { layer: layer.to_owned(), key: key.to_owned(), value })
}
