//! What the kernel tells of the machine's memory.

use std::path::Path;

use plimsoll_types::Bytes;
use serde::{Deserialize, Serialize};

use crate::ProbeError;
use crate::reread::read_if_there;

/// The memory of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostMemory {
    /// What the kernel manages: the installed memory less what it reserves for itself.
    pub total: Bytes,
    /// What could be taken without swapping.
    pub available: Bytes,
}

/// What `/proc/meminfo` must tell.
pub(crate) const MEMINFO: &str = "MemTotal and MemAvailable in kB";

/// Reads the memory of the machine whose files lie below `root`.
///
/// # Errors
///
/// [`ProbeError::CapacityUnknown`] on a system without `/proc/meminfo`, [`ProbeError::Io`] and
/// [`ProbeError::Malformed`] when it cannot be read.
pub(crate) fn read(root: &Path) -> Result<HostMemory, ProbeError> {
    let path = root.join("proc/meminfo");
    let text = read_if_there(&path)?.ok_or_else(|| memory_unknown(&path))?;
    parse_meminfo(&text).ok_or(ProbeError::Malformed { path, what: MEMINFO })
}

/// Says that a system other than Linux does not tell its memory.
pub(crate) fn memory_unknown(path: &Path) -> ProbeError {
    let reason = format!("{} is not there, and only Linux is known", path.display());
    ProbeError::CapacityUnknown { device: "this machine".into(), reason }
}

/// Parses `/proc/meminfo`; kernels before 3.14 have no `MemAvailable`, for which `MemFree` stands in.
pub(crate) fn parse_meminfo(text: &str) -> Option<HostMemory> {
    let available = kib_field(text, "MemAvailable").or_else(|| kib_field(text, "MemFree"))?;
    Some(HostMemory { total: kib_field(text, "MemTotal")?, available })
}

/// Reads the line `name: number kB`.
pub(crate) fn kib_field(text: &str, name: &str) -> Option<Bytes> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok().map(Bytes::kib)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
MemTotal:       24655256 kB
MemFree:        23961344 kB
MemAvailable:   24169484 kB
Buffers:           10240 kB
HugePages_Total:       0
";

    #[test]
    fn total_and_available_memory_are_read_in_kib() {
        let memory = parse_meminfo(TEXT).unwrap();
        assert_eq!(memory, HostMemory { total: Bytes::kib(24_655_256), available: Bytes::kib(24_169_484) });
        let old = parse_meminfo("MemTotal: 100 kB\nMemFree: 40 kB\n").unwrap();
        assert_eq!(old.available, Bytes::kib(40));
    }

    #[test]
    fn a_file_without_the_total_is_refused() {
        for text in ["", "MemFree: 40 kB\n", "MemTotal: 100\nMemFree: 40 kB\n", "MemTotal: many kB\nMemFree: 40 kB\n"] {
            assert_eq!(parse_meminfo(text), None, "{text}");
        }
    }
}
