//! How often the kernel has ended processes for want of memory.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::ProbeError;
use crate::cgroup;
use crate::reread::read_if_there;

/// Counts of processes that the kernel killed because memory ran out; two readings say whether it happened between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OomKills {
    /// In the control groups of this process; `None` where they do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u64>,
    /// On the whole machine; `None` where the kernel does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<u64>,
}

impl OomKills {
    pub(crate) fn read(root: &Path) -> Result<Self, ProbeError> {
        let machine = read_if_there(&root.join("proc/vmstat"))?.and_then(|text| count(&text));
        let mut group = None;
        for files in cgroup::kill_files(root)? {
            // Of one hierarchy the innermost group that can be seen: it counts its own processes, whoever set the limit.
            for path in files {
                if let Some(n) = read_if_there(&path)?.and_then(|text| count(&text)) {
                    group = Some(group.unwrap_or(0) + n);
                    break;
                }
            }
        }
        Ok(Self { group, machine })
    }
}

/// Reads the line `oom_kill N`; kernels before 4.13 have none.
fn count(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[track_caller]
    fn check(files: &[(&str, &str)], group: Option<u64>, machine: Option<u64>) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        assert_eq!(OomKills::read(root.path()).unwrap(), OomKills { group, machine });
    }

    #[test]
    fn both_versions_of_control_groups_and_the_machine_are_counted() {
        let vmstat = ("proc/vmstat", "nr_free_pages 3\noom_kill_total 9\noom_kill 5\n");
        let v2 = "low 0\nhigh 0\nmax 12\noom 4\noom_kill 3\noom_group_kill 1\n";
        check(
            &[
                vmstat,
                ("proc/self/cgroup", "0::/a/b\n"),
                ("sys/fs/cgroup/a/b/memory.events", v2),
                ("sys/fs/cgroup/a/memory.events", "oom_kill 100\n"),
            ],
            Some(3),
            Some(5),
        );
        let v1 = "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n";
        let group = ("proc/self/cgroup", "4:memory:/job\n3:cpu:/job\n");
        check(&[group, ("sys/fs/cgroup/memory/job/memory.oom_control", v1)], Some(2), None);
    }

    #[test]
    fn a_container_finds_the_count_of_its_group_at_the_mount_point() {
        let group = ("proc/self/cgroup", "4:memory:/docker/0123\n");
        check(&[group, ("sys/fs/cgroup/memory/memory.oom_control", "oom_kill 8\n")], Some(8), None);
    }

    #[test]
    fn a_kernel_that_does_not_count_has_no_number() {
        check(&[], None, None);
        check(
            &[
                ("proc/vmstat", "nr_free_pages 3\n"),
                ("proc/self/cgroup", "4:memory:/\n"),
                ("sys/fs/cgroup/memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n"),
            ],
            None,
            None,
        );
    }
}
