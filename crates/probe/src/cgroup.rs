//! The control groups of this process: their limits, what they hold, and where they count what the kernel killed.

use std::num::ParseIntError;
use std::path::{Component, Path, PathBuf};

use plimsoll_types::Bytes;
use serde::{Deserialize, Serialize};

use crate::ProbeError;
use crate::reread::{Reread, read_if_there};

/// The tightest limit among a process's control groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupLimit {
    /// Bytes that all processes of the group may hold together.
    pub limit: Bytes,
    /// The file that says so.
    pub path: PathBuf,
}

/// Where a hierarchy is mounted, and in which files a group says what.
#[derive(Debug)]
struct Hierarchy {
    mount: &'static str,
    /// What its processes may hold together.
    limit: &'static str,
    /// What they hold, cached files included.
    usage: &'static str,
    /// The key of `memory.stat` for cached files that nobody has used lately, in the group and all below it.
    inactive_file: &'static str,
    /// How many of its processes were killed.
    kills: &'static str,
}

/// The second version, alone on the machine.
const V2: Hierarchy = Hierarchy {
    mount: "sys/fs/cgroup",
    limit: "memory.max",
    usage: "memory.current",
    inactive_file: "inactive_file",
    kills: "memory.events",
};
/// The second version beside the first.
const V2_HYBRID: Hierarchy = Hierarchy { mount: "sys/fs/cgroup/unified", ..V2 };
/// The memory controller of the first version.
const V1: Hierarchy = Hierarchy {
    mount: "sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    inactive_file: "total_inactive_file",
    kills: "memory.oom_control",
};

/// The first version has no word for "no limit": it shows the largest number of whole pages, near 2⁶³, whose last
/// digits depend on the page size. No machine has a quarter of that.
const V1_NO_LIMIT: u64 = 1 << 61;

/// Returns the tightest limit on the way from this process's groups up to their mount points.
///
/// A group that is not there (a container sees its own group as the mount point, under the name that it has outside)
/// is passed over.
pub(crate) fn tightest(root: &Path) -> Result<Option<CgroupLimit>, ProbeError> {
    let mut tightest: Option<CgroupLimit> = None;
    for path in groups(root)?.concat().into_iter().map(|it| it.folder.join(it.hierarchy.limit)) {
        let Some(text) = read_if_there(&path)? else { continue };
        let limit = parse_limit(&text, &path)?;
        if let Some(limit) = limit.filter(|limit| tightest.as_ref().is_none_or(|it| *limit < it.limit)) {
            tightest = Some(CgroupLimit { limit, path });
        }
    }
    Ok(tightest)
}

/// Opens the groups that may limit this process.
pub(crate) fn open_groups(root: &Path) -> Result<Vec<OpenGroup>, ProbeError> {
    groups(root)?.concat().iter().filter_map(|it| it.open().transpose()).collect()
}

/// Returns, for each hierarchy, the files that may count killed processes, innermost first.
pub(crate) fn kill_files(root: &Path) -> Result<Vec<Vec<PathBuf>>, ProbeError> {
    let files = |groups: Vec<Group>| groups.into_iter().map(|it| it.folder.join(it.hierarchy.kills)).collect();
    Ok(groups(root)?.into_iter().map(files).collect())
}

/// A control group, which may be there or not.
#[derive(Clone)]
struct Group {
    folder: PathBuf,
    hierarchy: &'static Hierarchy,
}

impl Group {
    /// Opens the files of a group that has a limit or may be given one.
    fn open(&self) -> Result<Option<OpenGroup>, ProbeError> {
        let open = |name: &str| Reread::open_if_there(self.folder.join(name));
        let Some(limit) = open(self.hierarchy.limit)? else { return Ok(None) };
        let (usage, stat) = (open(self.hierarchy.usage)?, open("memory.stat")?);
        Ok(Some(OpenGroup { limit, usage, stat, inactive_file: self.hierarchy.inactive_file }))
    }
}

/// A control group whose files are open.
#[derive(Debug)]
pub(crate) struct OpenGroup {
    limit: Reread,
    usage: Option<Reread>,
    stat: Option<Reread>,
    inactive_file: &'static str,
}

impl OpenGroup {
    /// Returns the limit as it is now, if there is one; a group that was removed limits nobody.
    ///
    /// # Errors
    ///
    /// [`ProbeError::Io`] and [`ProbeError::Malformed`].
    pub(crate) fn limit(&self) -> Result<Option<Bytes>, ProbeError> {
        self.limit.read()?.map_or(Ok(None), |text| parse_limit(&text, self.limit.path()))
    }

    /// Returns what the processes of the group hold together, cached files that nobody uses left out: the kernel gives
    /// those back before it kills anybody.
    ///
    /// # Errors
    ///
    /// [`ProbeError::Io`] and [`ProbeError::Malformed`].
    pub(crate) fn held(&self) -> Result<Bytes, ProbeError> {
        let text = |file: &Option<Reread>| file.as_ref().map_or(Ok(None), Reread::read);
        let (Some(file), Some(usage)) = (&self.usage, text(&self.usage)?) else { return Ok(Bytes::ZERO) };
        let malformed = |_| ProbeError::Malformed { path: file.path().to_owned(), what: "a number of bytes" };
        let usage = usage.trim().parse().map(Bytes).map_err(malformed)?;
        let inactive = text(&self.stat)?.and_then(|text| counter(&text, self.inactive_file));
        Ok(usage.saturating_sub(inactive.unwrap_or(Bytes::ZERO)))
    }
}

/// Reads one line, `key number`, of a `memory.stat`.
fn counter(text: &str, key: &str) -> Option<Bytes> {
    let number = |line: &str| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok().map(Bytes);
    text.lines().find_map(number)
}

/// Returns, for each hierarchy, the groups of this process and those above, innermost first.
fn groups(root: &Path) -> Result<Vec<Vec<Group>>, ProbeError> {
    let groups = read_if_there(&root.join("proc/self/cgroup"))?.unwrap_or_default();
    Ok(groups.lines().flat_map(|line| groups_of(line, root)).collect())
}

/// Returns the groups that one line of `/proc/self/cgroup` (`id:controllers:path`) may mean, for each hierarchy.
fn groups_of(line: &str, root: &Path) -> Vec<Vec<Group>> {
    let mut fields = line.splitn(3, ':');
    let (Some(_), Some(controllers), Some(group)) = (fields.next(), fields.next(), fields.next()) else {
        return Vec::new();
    };
    // A process that was moved out of its namespace's root sees `/../…`; what lies outside cannot be read anyway.
    let group: PathBuf = Path::new(group).components().filter(|it| matches!(it, Component::Normal(_))).collect();
    let hierarchies: &[&Hierarchy] = match controllers {
        "" => &[&V2, &V2_HYBRID],
        _ if controllers.split(',').any(|it| it == "memory") => &[&V1],
        _ => &[],
    };
    let upwards = |hierarchy: &&'static Hierarchy| {
        let group_at = |above: &Path| Group { folder: root.join(hierarchy.mount).join(above), hierarchy };
        group.ancestors().map(group_at).collect()
    };
    hierarchies.iter().map(upwards).collect()
}

/// Parses a limit: a number of bytes, or `max` (and, in the first version, an absurd number) for none.
///
/// # Errors
///
/// [`ProbeError::Malformed`] with the name of the file.
fn parse_limit(text: &str, path: &Path) -> Result<Option<Bytes>, ProbeError> {
    let bad = |_: ParseIntError| ProbeError::Malformed { path: path.to_owned(), what: "`max` or a number of bytes" };
    match text.trim() {
        "max" => Ok(None),
        number => number.parse().map(|limit| (limit < V1_NO_LIMIT).then_some(Bytes(limit))).map_err(bad),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[track_caller]
    fn check(groups: &str, files: &[(&str, &str)], expected: Option<(&str, u64)>) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files.iter().chain(&[("proc/self/cgroup", groups)]) {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let expected = expected.map(|(path, limit)| CgroupLimit { limit: Bytes(limit), path: root.path().join(path) });
        assert_eq!(tightest(root.path()).unwrap(), expected);
    }

    #[test]
    fn the_tightest_group_on_the_way_up_wins() {
        check(
            "0::/user.slice/job\n",
            &[
                ("sys/fs/cgroup/user.slice/job/memory.max", "8000\n"),
                ("sys/fs/cgroup/user.slice/memory.max", "5000\n"),
                ("sys/fs/cgroup/memory.max", "max\n"),
            ],
            Some(("sys/fs/cgroup/user.slice/memory.max", 5000)),
        );
    }

    #[test]
    fn max_and_the_first_versions_absurd_number_are_no_limit() {
        check("0::/job\n", &[("sys/fs/cgroup/job/memory.max", "max\n")], None);
        let unlimited = "9223372036854771712\n";
        check("4:memory:/job\n", &[("sys/fs/cgroup/memory/job/memory.limit_in_bytes", unlimited)], None);
        check("0::/job\n", &[], None);
        check("", &[], None);
    }

    #[test]
    fn the_first_version_is_read_where_the_memory_controller_is() {
        check(
            "9:name=systemd:/\n4:cpu,memory:/job\n3:cpuset:/other\n0::/\n",
            &[
                ("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "7000\n"),
                ("sys/fs/cgroup/memory/other/memory.limit_in_bytes", "1\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ],
            Some(("sys/fs/cgroup/memory/job/memory.limit_in_bytes", 7000)),
        );
    }

    #[test]
    fn a_container_finds_its_own_group_at_the_mount_point() {
        check(
            "4:memory:/docker/0123abcd\n",
            &[("sys/fs/cgroup/memory/memory.limit_in_bytes", "6000")],
            Some(("sys/fs/cgroup/memory/memory.limit_in_bytes", 6000)),
        );
        check(
            "0::/../job\n",
            &[("sys/fs/cgroup/job/memory.max", "6000")],
            Some(("sys/fs/cgroup/job/memory.max", 6000)),
        );
    }

    #[test]
    fn a_group_name_may_hold_a_colon() {
        check(
            "0::/a:b\n",
            &[("sys/fs/cgroup/unified/a:b/memory.max", "4000")],
            Some(("sys/fs/cgroup/unified/a:b/memory.max", 4000)),
        );
    }

    #[test]
    fn a_limit_that_is_no_number_is_an_error_that_names_the_file() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        fs::create_dir_all(root.path().join("sys/fs/cgroup")).unwrap();
        fs::write(root.path().join("proc/self/cgroup"), "0::/").unwrap();
        fs::write(root.path().join("sys/fs/cgroup/memory.max"), "plenty").unwrap();
        let error = tightest(root.path()).unwrap_err();
        assert!(error.to_string().contains("sys/fs/cgroup/memory.max"), "{error}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_groups_of_this_process_can_be_read() {
        tightest(Path::new("/")).unwrap();
    }
}
