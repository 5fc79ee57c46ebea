//! The limits of this process, ready to be read before every step.

use std::path::Path;
use std::sync::OnceLock;

use plimsoll_types::Bytes;

use crate::ProbeError;
use crate::cgroup::{OpenGroup, open_groups};
use crate::meminfo::{HostMemory, MEMINFO, kib_field, memory_unknown, parse_meminfo};
use crate::reread::Reread;

/// What other processes hold counts in parts of all there is, of which there are so many: it moves all the time, and a
/// step is not planned anew for that.
const GRAINS: u64 = 64;

/// The most that is left of a limit for what the kernel counts for this process and the process does not, and which comes
/// with the work: the stacks of threads, and the holes that the system's allocator keeps between blocks.
///
/// Steps of 83 MiB took 5 to 10 MiB more than they counted, most where other programs kept the machine busy; nothing is
/// known of much larger ones.
const MOST_UNCOUNTED: Bytes = Bytes::mib(32);

/// The part of a limit that is left for that: one in so many, of a limit that is small.
const UNCOUNTED_SHARE: u64 = 8;

/// What the kernel counted for this process and the process did not, when that was asked first: the program's data, and its
/// stacks. Later some of that is what the system's allocator has back and keeps, which is to be had.
static OF_THIS_PROCESS: OnceLock<Bytes> = OnceLock::new();

/// The machine's memory, and the open files of all that may limit it further.
///
/// Limits and what others hold may change at any moment, and are read before each step: 6 µs for the machine, 1 µs for a
/// control group without a limit and 17 µs for one with, instead of 40 µs and more for finding and opening them again.
/// The groups themselves are those in which the process was at the start.
#[derive(Debug)]
pub(crate) struct Limits {
    total: Bytes,
    machine: Reread,
    /// What the kernel says of this process; none on a machine that is only described.
    process: Option<Reread>,
    groups: Vec<OpenGroup>,
    /// The same as [`OF_THIS_PROCESS`] on a machine that is only described; `None` on this one.
    described: Option<OnceLock<Bytes>>,
}

impl Limits {
    /// Opens the files of the machine whose `proc` and `sys` lie below `root`.
    ///
    /// # Errors
    ///
    /// [`ProbeError::CapacityUnknown`] on a system without `/proc/meminfo`, [`ProbeError::Io`] and
    /// [`ProbeError::Malformed`] when a file is there that cannot be read.
    pub(crate) fn open(root: &Path) -> Result<Self, ProbeError> {
        let path = root.join("proc/meminfo");
        let machine = Reread::open_if_there(path.clone())?.ok_or_else(|| memory_unknown(&path))?;
        let process = Reread::open_if_there(root.join("proc/self/status"))?;
        let (total, groups) = (memory(&machine)?.total, open_groups(root)?);
        let described = (root != Path::new("/")).then(OnceLock::new);
        Ok(Self { total, machine, process, groups, described })
    }

    /// Returns the machine's memory.
    pub(crate) fn total(&self) -> Bytes {
        self.total
    }

    /// Returns the tightest limit of a group, if one is set.
    ///
    /// # Errors
    ///
    /// [`ProbeError::Io`] and [`ProbeError::Malformed`] when a file cannot be read.
    pub(crate) fn of_groups(&self) -> Result<Option<Bytes>, ProbeError> {
        let limits: Vec<_> = self.groups.iter().map(OpenGroup::limit).collect::<Result<_, _>>()?;
        Ok(limits.into_iter().flatten().min())
    }

    /// Returns what a process that counts `held` bytes as its own may hold: the least, over the machine and each control
    /// group on the way up that has a limit, of what others leave of it.
    ///
    /// # Errors
    ///
    /// [`ProbeError::Io`] and [`ProbeError::Malformed`] when a file cannot be read.
    pub(crate) fn capacity(&self, held: Bytes) -> Result<Bytes, ProbeError> {
        let mut least = left(self.total, self.held_by_others(held)?);
        for group in &self.groups {
            let Some(limit) = group.limit()? else { continue };
            let held_by_others = group.held()?.saturating_sub(self.own(held)?);
            let uncounted = MOST_UNCOUNTED.min(Bytes(limit.0 / UNCOUNTED_SHARE));
            least = least.min(left(limit, held_by_others).saturating_sub(uncounted));
        }
        Ok(least)
    }

    /// Returns what is taken of the machine's memory, less what this process holds.
    ///
    /// # Errors
    ///
    /// As [`Self::capacity`].
    pub(crate) fn held_by_others(&self, held: Bytes) -> Result<Bytes, ProbeError> {
        Ok(self.total.saturating_sub(memory(&self.machine)?.available).saturating_sub(held))
    }

    /// Returns what of a group's memory this process holds of what it counts: its pages that are no file's, as the kernel
    /// counts them, without those that it never counts; and where the kernel does not tell, what it has counted.
    ///
    /// A block that was never written to is counted by the process and not by the kernel.
    fn own(&self, held: Bytes) -> Result<Bytes, ProbeError> {
        let status = self.process.as_ref().map_or(Ok(None), Reread::read)?;
        let Some(pages) = status.and_then(|text| kib_field(&text, "RssAnon")) else { return Ok(held) };
        let uncounted = self.described.as_ref().unwrap_or(&OF_THIS_PROCESS);
        Ok(pages.saturating_sub(*uncounted.get_or_init(|| pages.saturating_sub(held))))
    }
}

/// Returns what others leave of `all`: what they hold counts in whole grains, so that this is never above what there is.
pub(crate) fn left(all: Bytes, held_by_others: Bytes) -> Bytes {
    let grain = (all.0 / GRAINS).max(1);
    all.saturating_sub(Bytes(held_by_others.0.div_ceil(grain).saturating_mul(grain)))
}

fn memory(file: &Reread) -> Result<HostMemory, ProbeError> {
    let text = file.read()?.unwrap_or_default();
    parse_meminfo(&text).ok_or_else(|| ProbeError::Malformed { path: file.path().to_owned(), what: MEMINFO })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A machine that is written as it goes.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new(files: &[(&str, &str)]) -> Self {
            let machine = Self(tempfile::tempdir().unwrap());
            for (path, text) in files {
                machine.write(path, text);
            }
            machine
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn limits(&self) -> Limits {
            Limits::open(self.0.path()).unwrap()
        }
    }

    const PLENTY: (&str, &str) = ("proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 1000000 kB\n");

    #[test]
    fn a_limit_that_falls_is_seen_at_the_next_reading() {
        let machine = Machine::new(&[
            ("proc/self/cgroup", "0::/job\n"),
            ("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 900 kB\n"),
            ("sys/fs/cgroup/job/memory.max", "max\n"),
        ]);
        let limits = machine.limits();
        let capacity = || limits.capacity(Bytes::kib(100)).unwrap();
        assert_eq!(capacity(), Bytes::kib(1000));
        for limit in [900_000, 1600, 500_000] {
            machine.write("sys/fs/cgroup/job/memory.max", &format!("{limit}\n"));
            assert_eq!(capacity(), Bytes(limit - limit / 8));
        }
        machine.write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 200 kB\n");
        assert_eq!(capacity(), Bytes(304_000), "others hold 700 of 1000 kB, and that counts in grains of 16");
        machine.write("sys/fs/cgroup/job/memory.max", "plenty\n");
        let error = limits.capacity(Bytes::ZERO).unwrap_err();
        assert!(error.to_string().contains("job/memory.max"), "{error}");
    }

    #[test]
    fn what_others_of_the_group_hold_is_not_to_be_had_and_cached_files_are() {
        let machine = Machine::new(&[
            PLENTY,
            ("proc/self/cgroup", "0::/pod\n"),
            ("sys/fs/cgroup/pod/memory.max", "64000000\n"),
            ("sys/fs/cgroup/pod/memory.current", "50000000\n"),
            ("sys/fs/cgroup/pod/memory.stat", "anon 9\ninactive_file 20000000\nactive_file 3\n"),
        ]);
        let limits = machine.limits();
        // 50 MB, of which 20 are cached files, and 10 this process's own.
        assert_eq!(limits.capacity(Bytes(10_000_000)).unwrap(), Bytes(36_000_000));
        // What this process takes is its own, and what goes back is there again at once.
        machine.write("sys/fs/cgroup/pod/memory.current", "55000000\n");
        assert_eq!(limits.capacity(Bytes(15_000_000)).unwrap(), Bytes(36_000_000));
        machine.write("sys/fs/cgroup/pod/memory.current", "35000000\n");
        assert_eq!(limits.capacity(Bytes(15_000_000)).unwrap(), Bytes(56_000_000), "others hold nothing");
    }

    #[test]
    fn a_little_that_others_hold_is_not_to_be_had_either() {
        let mib = |n: u64| (n << 20).to_string() + "\n";
        let machine = Machine::new(&[
            ("proc/meminfo", "MemTotal: 134217728 kB\nMemAvailable: 132225434 kB\n"),
            ("proc/self/cgroup", "0::/pod\n"),
            ("sys/fs/cgroup/pod/memory.max", "max\n"),
            ("sys/fs/cgroup/pod/memory.current", &mib(120)),
        ]);
        let limits = machine.limits();
        assert_eq!(limits.capacity(Bytes::ZERO).unwrap(), Bytes::gib(126), "others hold 1.9 of 128 GiB");
        machine.write("sys/fs/cgroup/pod/memory.max", &mib(8192));
        assert_eq!(limits.capacity(Bytes::ZERO).unwrap(), Bytes::mib(8032), "others hold 120 of 8192 MiB");
    }

    proptest::proptest! {
        #[test]
        fn what_is_left_is_never_above_what_there_is(all in 0..1_u64 << 50, held in 0..1_u64 << 50) {
            let (left, really) = (left(Bytes(all), Bytes(held)).0, all.saturating_sub(held));
            proptest::prop_assert!(left <= really && really <= left + (all / GRAINS).max(1));
        }
    }

    #[test]
    fn of_nested_groups_the_one_that_leaves_least_counts_whatever_its_limit() {
        let machine = Machine::new(&[
            PLENTY,
            ("proc/self/cgroup", "0::/pod/job\n"),
            ("sys/fs/cgroup/pod/job/memory.max", "32000000\n"),
            ("sys/fs/cgroup/pod/job/memory.current", "4000000\n"),
            ("sys/fs/cgroup/pod/memory.max", "64000000\n"),
            ("sys/fs/cgroup/pod/memory.current", "44000000\n"),
            ("sys/fs/cgroup/memory.max", "max\n"),
            ("sys/fs/cgroup/memory.current", "999999999999\n"),
        ]);
        let limits = machine.limits();
        assert_eq!(limits.capacity(Bytes(4_000_000)).unwrap(), Bytes(16_000_000), "a neighbour in the pod holds 40 MB");
        machine.write("sys/fs/cgroup/pod/memory.current", "8000000\n");
        assert_eq!(limits.capacity(Bytes(4_000_000)).unwrap(), Bytes(28_000_000));
    }

    #[test]
    fn the_first_version_counts_the_cached_files_of_the_groups_below_too() {
        let machine = Machine::new(&[
            PLENTY,
            ("proc/self/cgroup", "4:memory:/job\n"),
            ("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "64000000\n"),
            ("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "50000000\n"),
            ("sys/fs/cgroup/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 20000000\n"),
        ]);
        assert_eq!(machine.limits().capacity(Bytes(10_000_000)).unwrap(), Bytes(36_000_000));
    }

    /// A group of 64 MB that holds this process with so many KiB of pages, and 20 MB beside it.
    fn write_pages(machine: &Machine, kib: u64) {
        machine.write("proc/self/status", &format!("Name:\tplimsoll\nRssAnon:\t {kib} kB\nRssFile:\t 20000 kB\n"));
        machine.write("sys/fs/cgroup/job/memory.current", &format!("{}\n", 20_000_000 + 1024 * kib));
    }

    #[test]
    fn what_the_kernel_counts_for_this_process_is_its_own() {
        let machine =
            Machine::new(&[PLENTY, ("proc/self/cgroup", "0::/job\n"), ("sys/fs/cgroup/job/memory.max", "64000000\n")]);
        write_pages(&machine, 10_000);
        // The process has counted 30 MB, of which it has not written to 20: those are nobody's yet.
        assert_eq!(machine.limits().capacity(Bytes(30_000_000)).unwrap(), Bytes(36_000_000));
    }

    #[test]
    fn what_this_process_holds_and_never_counts_is_not_to_be_had() {
        let machine =
            Machine::new(&[PLENTY, ("proc/self/cgroup", "0::/job\n"), ("sys/fs/cgroup/job/memory.max", "64000000\n")]);
        write_pages(&machine, 8000);
        let limits = machine.limits();
        let left = |held| limits.capacity(Bytes(held)).unwrap();
        assert_eq!(left(192_000), Bytes(28_000_000), "8 MB are data and stacks");
        // Of what it has counted since, it has given back all, and its allocator keeps the half.
        write_pages(&machine, 20_000);
        assert_eq!(left(192_000), Bytes(28_000_000), "what an allocator keeps is to be had");
    }

    #[test]
    fn what_a_group_holds_must_be_a_number() {
        let machine = Machine::new(&[
            PLENTY,
            ("proc/self/cgroup", "0::/job\n"),
            ("sys/fs/cgroup/job/memory.max", "64000000\n"),
            ("sys/fs/cgroup/job/memory.current", "much\n"),
        ]);
        let error = machine.limits().capacity(Bytes::ZERO).unwrap_err();
        assert!(error.to_string().contains("job/memory.current"), "{error}");
    }
}
