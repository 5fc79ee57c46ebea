//! What tells a whole checkpoint from a damaged one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{MODEL, OPTIMIZER, STATE, WEIGHTS};
use crate::run_dir::{RunDirError, io_error, write_atomically};

/// Written last: a checkpoint without it is not whole.
const FILE: &str = "checksums.json";
const COVERED: [&str; 4] = [MODEL, OPTIMIZER, STATE, WEIGHTS];
/// Bytes read at a time, so that a large model is never in memory twice; on the stack, because steps go on meanwhile.
const BLOCK: usize = 16 << 10;

/// What a file is recognised by.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Checksum {
    bytes: u64,
    /// CRC-32 (ISO 3309) in eight hexadecimal digits.
    crc32: String,
}

impl Checksum {
    fn of(path: &Path) -> io::Result<Self> {
        let (mut file, mut hasher) = (File::open(path)?, crc32fast::Hasher::new());
        let (mut block, mut bytes) = ([0; BLOCK], 0);
        loop {
            let n = file.read(&mut block)?;
            if n == 0 {
                return Ok(Self { bytes, crc32: format!("{:08x}", hasher.finalize()) });
            }
            hasher.update(&block[..n]);
            bytes += n as u64;
        }
    }
}

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
            let (was, is) = ((noted.bytes, noted.crc32), (found.bytes, found.crc32));
            return Err(format!("{name} has {} bytes and checksum {}, not {} and {}", is.0, is.1, was.0, was.1));
        }
    }
    match noted.into_keys().next() {
        None => Ok(()),
        Some(name) => Err(format!("{FILE} knows `{name}`, which is no part of a checkpoint")),
    }
}
