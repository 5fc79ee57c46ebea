//! What tells a whole checkpoint from a damaged one.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use plimsoll_files::Checksum;

use super::{MODEL, OPTIMIZER, STATE, WEIGHTS};
use crate::run_dir::{RunDirError, io_error, write_atomically};

/// Written last: a checkpoint without it is not whole.
const FILE: &str = "checksums.json";
const COVERED: [&str; 4] = [MODEL, OPTIMIZER, STATE, WEIGHTS];

/// Writes the checksums of a checkpoint that is otherwise complete.
pub(super) fn write(folder: &Path) -> Result<(), RunDirError> {
    let of = |name: &'static str| {
        let path = folder.join(name);
        Checksum::of(&path).map(|it| (name, it)).map_err(|source| io_error("read", &path, source))
    };
    let checksums = COVERED.into_iter().map(of).collect::<Result<BTreeMap<_, _>, _>>()?;
    let text = serde_json::to_string(&checksums).unwrap_or_else(|_| unreachable!("numbers and text are always JSON"));
    write_atomically(&folder.join(FILE), text.as_bytes())
}

/// Says what is wrong with a checkpoint, if anything is.
pub(super) fn verify(folder: &Path) -> Result<(), String> {
    let text = fs::read(folder.join(FILE)).map_err(|error| format!("{FILE}: {error}"))?;
    let mut noted: BTreeMap<String, Checksum> =
        serde_json::from_slice(&text).map_err(|error| format!("{FILE}: {error}"))?;
    for name in COVERED {
        let noted = noted.remove(name).ok_or_else(|| format!("{FILE} does not know {name}"))?;
        let found = Checksum::of(&folder.join(name)).map_err(|error| format!("{name}: {error}"))?;
        if found != noted {
            return Err(format!("{name} has {found}, not {noted}"));
        }
    }
    match noted.into_keys().next() {
        None => Ok(()),
        Some(name) => Err(format!("{FILE} knows `{name}`, which is no part of a checkpoint")),
    }
}
