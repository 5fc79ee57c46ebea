//! What tells a whole file from a damaged one.

use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Bytes read at a time, so that a large file is never in memory; on the stack, because steps may go on meanwhile.
const BLOCK: usize = 16 << 10;

/// What a file is recognised by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checksum {
    bytes: u64,
    /// CRC-32 (ISO 3309) in eight hexadecimal digits.
    crc32: String,
}

impl Checksum {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn of(path: &Path) -> io::Result<Self> {
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

impl Display for Checksum {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes and checksum {}", self.bytes, self.crc32)
    }
}
