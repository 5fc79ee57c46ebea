//! The memory of this machine.

use std::path::{Path, PathBuf};

use plimsoll_types::Bytes;

use crate::cgroup::{self, CgroupLimit};
use crate::limits::Limits;
use crate::meminfo::{self, HostMemory};
use crate::{OomKills, ProbeError};

/// The files that tell of this machine's memory, below a root directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    root: PathBuf,
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
        meminfo::read(&self.root)
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
        Limits::open(&self.root)?.capacity(held)
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const MEMINFO: &str = "MemTotal: 24655256 kB\nMemAvailable: 24655256 kB\n";

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
            fs::write(root.path().join("proc/meminfo"), MEMINFO).unwrap();
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
