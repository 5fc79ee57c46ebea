//! The limits of this process, ready to be read before every step.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

use plimsoll_types::Bytes;

use crate::cgroup::{limit_files, parse_limit};
use crate::host::{MEMINFO, parse_meminfo};
use crate::{Host, ProbeError};

/// Enough for a limit (20 digits) and for the head of `/proc/meminfo`, where the two figures stand.
const LONGEST: usize = 512;

/// What other processes leave is known to one part in so many of the machine's memory: it moves all the time, and a
/// step is not planned anew for that.
const GRAINS: u64 = 64;

/// The machine's memory, and the open files of all that may limit it further.
///
/// A limit may change at any moment, and is read before each step: 1 µs for a control group and 6 µs for the machine,
/// instead of 40 µs for finding and opening them again (measured on a shared AMD EPYC).
/// The groups themselves are those in which the process was at the start.
#[derive(Debug)]
pub(crate) struct Limits {
    total: Bytes,
    machine: (PathBuf, File),
    groups: Vec<(PathBuf, File)>,
}

impl Limits {
    /// Opens the files of a machine.
    ///
    /// # Errors
    ///
    /// Those of [`Host::capacity`].
    pub(crate) fn open(host: &Host) -> Result<Self, ProbeError> {
        let total = host.memory()?.total;
        let path = host.root().join("proc/meminfo");
        let machine = match File::open(&path) {
            Ok(file) => (path, file),
            Err(source) => return Err(ProbeError::Io { path, source }),
        };
        let mut groups = Vec::new();
        for path in limit_files(host.root())? {
            match File::open(&path) {
                Ok(file) => groups.push((path, file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => (),
                Err(source) => return Err(ProbeError::Io { path, source }),
            }
        }
        Ok(Self { total, machine, groups })
    }

    /// Returns the least of the machine's memory, the tightest limit as it is now, and what other processes leave to
    /// one that holds `held` already.
    ///
    /// # Errors
    ///
    /// [`ProbeError::Io`] and [`ProbeError::Malformed`] when a limit cannot be read.
    pub(crate) fn capacity(&self, held: Bytes) -> Result<Bytes, ProbeError> {
        let grain = (self.total.0 / GRAINS).max(1);
        let left = self.total.saturating_sub(self.held_by_others(held)?);
        // What is rounded down to whole grains is never above what there is; all there is stays all.
        let left = if left.0 + grain < self.total.0 { Bytes(left.0 / grain * grain) } else { self.total };
        self.groups
            .iter()
            .try_fold(left, |least, (path, file)| Ok(read_limit(path, file)?.map_or(least, |limit| limit.min(least))))
    }

    /// Returns what is taken of the machine's memory, less what this process holds.
    ///
    /// # Errors
    ///
    /// As [`Self::capacity`].
    pub(crate) fn held_by_others(&self, held: Bytes) -> Result<Bytes, ProbeError> {
        let (path, file) = &self.machine;
        let memory = parse_meminfo(&read(path, file)?);
        let memory = memory.ok_or_else(|| ProbeError::Malformed { path: path.clone(), what: MEMINFO })?;
        Ok(self.total.saturating_sub(memory.available).saturating_sub(held))
    }
}

fn read_limit(path: &Path, file: &File) -> Result<Option<Bytes>, ProbeError> {
    match read(path, file) {
        Ok(text) => parse_limit(&text, path),
        // A group that was removed limits nobody.
        Err(ProbeError::Io { source, .. }) if source.raw_os_error() == Some(NO_DEVICE) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a short file again from its beginning.
fn read(path: &Path, mut file: &File) -> Result<String, ProbeError> {
    let mut text = [0; LONGEST];
    let n = file.rewind().and_then(|()| file.read(&mut text));
    let n = n.map_err(|source| ProbeError::Io { path: path.to_owned(), source })?;
    Ok(String::from_utf8_lossy(&text[..n]).into_owned())
}

/// `ENODEV`, what a file of a removed group answers.
const NO_DEVICE: i32 = 19;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_limit_that_falls_is_seen_at_the_next_reading() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/self/cgroup", "0::/job\n");
        write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 900 kB\n");
        write("sys/fs/cgroup/job/memory.max", "max\n");
        let limits = Limits::open(&Host::at(root.path())).unwrap();
        let capacity = || limits.capacity(Bytes::kib(100)).unwrap();
        assert_eq!(capacity(), Bytes::kib(1000));
        for limit in [900_000, 1000, 500_000] {
            write("sys/fs/cgroup/job/memory.max", &format!("{limit}\n"));
            assert_eq!(capacity(), Bytes(limit));
        }
        write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 200 kB\n");
        assert_eq!(capacity(), Bytes(304_000), "others hold 700 of 1000 kB, and what is left counts in grains of 16");
        write("sys/fs/cgroup/job/memory.max", "plenty\n");
        let error = limits.capacity(Bytes::ZERO).unwrap_err();
        assert!(error.to_string().contains("job/memory.max"), "{error}");
    }
}
