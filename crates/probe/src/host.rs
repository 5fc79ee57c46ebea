//! The memory of this machine.

use std::path::{Path, PathBuf};
use std::{fs, io};

use plimsoll_types::Bytes;
use serde::{Deserialize, Serialize};

use crate::cgroup::{self, CgroupLimit};
use crate::limits::Limits;
use crate::{OomKills, ProbeError};

/// The files that tell of this machine's memory, below a root directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    root: PathBuf,
}

/// The memory of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostMemory {
    /// What the kernel manages: the installed memory less what it reserves for itself.
    pub total: Bytes,
    /// What could be taken without swapping.
    pub available: Bytes,
}

impl Host {
    /// This machine.
    pub fn new() -> Self {
        Self::at("/")
    }

    /// A machine whose `proc` and `sys` lie below `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the directory below which the files lie.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the machine's memory.
    ///
    /// # Errors
    ///
    /// [`ProbeError::CapacityUnknown`] on a system without `/proc/meminfo`, [`ProbeError::Io`] and
    /// [`ProbeError::Malformed`] when it cannot be read.
    pub fn memory(&self) -> Result<HostMemory, ProbeError> {
        let path = self.root.join("proc/meminfo");
        let text = read_if_there(&path)?.ok_or_else(|| memory_unknown(&path))?;
        parse_meminfo(&text).ok_or(ProbeError::Malformed { path, what: MEMINFO })
    }

    /// Returns the tightest limit of the control groups that this process is in, if one is set.
    ///
    /// # Errors
    ///
    /// [`ProbeError::Io`] and [`ProbeError::Malformed`] when a file is there that cannot be read.
    pub fn cgroup_limit(&self) -> Result<Option<CgroupLimit>, ProbeError> {
        cgroup::tightest(&self.root)
    }

    /// Returns how many processes the kernel has killed for want of memory.
    ///
    /// # Errors
    ///
    /// [`ProbeError::Io`] when a file is there that cannot be read.
    pub fn oom_kills(&self) -> Result<OomKills, ProbeError> {
        OomKills::read(&self.root)
    }

    /// Returns what this process may hold when it counts `held` bytes as its own: the least, over the machine and each of
    /// its control groups, of what others leave.
    ///
    /// # Errors
    ///
    /// Those of [`memory`](Self::memory) and [`cgroup_limit`](Self::cgroup_limit).
    pub fn capacity(&self, held: Bytes) -> Result<Bytes, ProbeError> {
        Limits::open(self)?.capacity(held)
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}

/// What `/proc/meminfo` must tell.
pub(crate) const MEMINFO: &str = "MemTotal and MemAvailable in kB";

/// Reads a file, or returns `None` where there is none.
pub(crate) fn read_if_there(path: &Path) -> Result<Option<String>, ProbeError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(source) => Err(ProbeError::Io { path: path.to_owned(), source }),
    }
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

    const MEMINFO: &str = "\
MemTotal:       24655256 kB
MemFree:        23961344 kB
MemAvailable:   24169484 kB
Buffers:           10240 kB
HugePages_Total:       0
";

    #[test]
    fn total_and_available_memory_are_read_in_kib() {
        let memory = parse_meminfo(MEMINFO).unwrap();
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

    #[test]
    fn a_system_without_meminfo_says_so() {
        let root = tempfile::tempdir().unwrap();
        let error = Host::at(root.path()).capacity(Bytes::ZERO).unwrap_err();
        assert!(matches!(error, ProbeError::CapacityUnknown { .. }));
        assert!(error.to_string().ends_with("a capacity that is set would do"), "{error}");
    }

    #[test]
    fn a_control_group_caps_the_capacity_but_never_raises_it() {
        for (limit, capacity) in [("1073741824", Bytes::mib(992)), ("max", Bytes::kib(24_655_256))] {
            let root = tempfile::tempdir().unwrap();
            let group = root.path().join("sys/fs/cgroup");
            fs::create_dir_all(root.path().join("proc/self")).unwrap();
            fs::create_dir_all(&group).unwrap();
            fs::write(root.path().join("proc/meminfo"), MEMINFO.replace("24169484", "24655256")).unwrap();
            fs::write(root.path().join("proc/self/cgroup"), "0::/\n").unwrap();
            fs::write(group.join("memory.max"), limit).unwrap();
            assert_eq!(Host::at(root.path()).capacity(Bytes::ZERO).unwrap(), capacity, "{limit}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_has_memory() {
        let (memory, capacity) = (Host::new().memory().unwrap(), Host::new().capacity(Bytes::ZERO).unwrap());
        assert!(memory.available <= memory.total && capacity <= memory.total && capacity > Bytes::mib(1));
    }
}
