//! Runs in memory control groups that have less than they want.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Run, end, events, last_checkpoint, signal, wait, worker};

/// A memory control group of the first version, below that of this process.
struct Group(PathBuf);

impl Group {
    /// Makes one with this limit where that is allowed, and says so where it is not.
    fn try_new(name: &str, limit: &str) -> Option<Self> {
        let Some(group) = Self::try_make(name) else {
            eprintln!("skipped: this process may not make a memory control group of the first version");
            return None;
        };
        // What is swapped out needs no kill.
        group.write("memory.swappiness", "0");
        group.write("memory.limit_in_bytes", limit);
        Some(group)
    }

    fn try_make(name: &str) -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let own =
            groups.lines().find_map(|line| Some(line.split_once(":memory:")?.1.trim_start_matches('/').to_owned()))?;
        let path = Path::new("/sys/fs/cgroup/memory").join(own);
        let path = path.join(format!("plimsoll-{name}-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        Some(Self(path))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, value: &str) {
        fs::write(self.file(name), value).unwrap();
    }

    /// Returns what a shell does to be in the group.
    fn join(&self) -> String {
        format!("echo $$ > {}", self.file("cgroup.procs").display())
    }

    /// Returns how many of its processes the kernel has killed.
    fn n_killed(&self) -> u64 {
        let control = fs::read_to_string(self.file("memory.oom_control")).unwrap();
        control.lines().find_map(|line| line.strip_prefix("oom_kill ")).unwrap().parse().unwrap()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What is left of it harms nobody.
        drop(fs::remove_dir(&self.0));
    }
}

/// Settings after those of [`LARGE`] whose largest rung needs more than three times what the groups of a killed run have.
const LARGER: [&str; 10] = [
    "--capacity",
    "device",
    "--set",
    "batch.effective_batch_size=256",
    "--set",
    "batch.batch_max=256",
    "--set",
    "sr.crops_per_image=16",
    "--set",
    "train.checkpoint_every=2",
];

#[test]
fn a_run_that_the_kernel_kills_for_its_memory_finishes_with_less() {
    // A run reads the limits of the groups that it began in: this one is moved to another, and sees the first rise.
    let Some(first) = Group::try_new("first", "112M") else { return };
    let Some(second) = Group::try_new("second", "112M") else { return };
    let run = Run::new();
    let child = run.below_shell(&first.join(), &[&LARGER[..], &["--steps", "100000"]].concat()).spawn().unwrap();
    run.wait_for_checkpoint(0);
    for pid in [child.id(), worker(&run.out(), child.id())] {
        second.write("cgroup.procs", &pid.to_string());
    }
    first.write("memory.limit_in_bytes", "1G");
    wait("kill", || 0 < second.n_killed());
    let last = last_checkpoint(&run.out()).unwrap();
    // The next worker begins in the group that it is in.
    run.wait_for_checkpoint(last + 1);
    signal("TERM", child.id());
    let (code, stderr) = end(child);
    assert_eq!(code, Some(143), "{stderr}");
    run.check_death(&stderr, "the out-of-memory count of its control group rose");
    let n_steps = last_checkpoint(&run.out()).unwrap() + 2;
    let steps = n_steps.to_string();
    let args = [&LARGER[..], &["--resume", "--steps", &steps]].concat();
    let (code, stderr) = end(run.below_shell(&second.join(), &args).spawn().unwrap());
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!((first.n_killed(), second.n_killed()), (0, 1), "{stderr}");
    run.check(usize::try_from(n_steps).unwrap());
}

#[test]
fn data_that_would_pass_what_the_group_has_are_refused_and_nothing_is_killed() {
    let Some(group) = Group::try_new("data", "96M") else { return };
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("labels.csv"), "path,label\nlarge.txt,a\n").unwrap();
    fs::File::create(folder.path().join("large.txt")).unwrap().set_len(200 << 20).unwrap();
    let out = |name: &str| folder.path().join(name).display().to_string();
    let (run, plan) = (out("run"), out("plan.json"));
    for args in [&["train", "--no-supervise", "--out", &run][..], &["plan", "--out", &plan], &["find"]] {
        let mut command = Command::new("sh");
        let join = format!("{} && exec \"$0\" \"$@\"", group.join());
        command.args(["-c", &join, env!("CARGO_BIN_EXE_plimsoll")]).args(args).arg("--data").arg(folder.path());
        command.args(["--job", "sequence", "--capacity", "device"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let (code, stderr) = end(command.spawn().unwrap());
        assert_eq!((code, group.n_killed()), (Some(2), 0), "{args:?}: {stderr}");
        for part in [" was refused while ", ", because the line is at ", "large.txt: out of memory"] {
            assert!(stderr.contains(part), "{args:?}: `{stderr}` lacks `{part}`");
        }
    }
}

#[test]
fn a_run_takes_what_others_of_its_control_group_leave_and_is_not_killed() {
    // The others hold two thirds, and each is smaller than the run becomes.
    let Some(group) = Group::try_new("shared", "300M") else { return };
    let hold =
        format!("{} && for i in 1 2 3 4; do dd if=/dev/zero bs=50M count=1 | sleep 1000 & done; wait", group.join());
    let mut hog = Command::new("sh").args(["-c", &hold]).stderr(Stdio::null()).process_group(0).spawn().unwrap();
    let in_use = || fs::read_to_string(group.file("memory.usage_in_bytes")).unwrap().trim().parse::<u64>().unwrap();
    wait("memory that is held", || 190 << 20 < in_use());
    let run = Run::new();
    let ended = end(run.below_shell(&group.join(), &["--steps", "16", "--capacity", "device"]).spawn().unwrap());
    drop(Command::new("kill").args(["-KILL", "--", &format!("-{}", hog.id())]).status());
    hog.wait().unwrap();
    let (code, stderr) = ended;
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(group.n_killed(), 0, "{stderr}");
    assert!(events(&run.out()).iter().all(|it| it["event"] != "step_failed"), "{stderr}");
    run.check(16);
}

#[test]
fn a_search_for_a_batch_size_that_would_pass_what_the_group_has_is_refused_and_not_killed() {
    let Some(group) = Group::try_new("search", "112M") else { return };
    let run = Run::new();
    // The weights alone take two thirds, and the program a fifth; a step has gradients besides.
    let wide = ["--no-supervise", "--capacity", "device", "--set", "sr.channels=512", "--set", "batch.batch_size=auto"];
    let (code, stderr) = end(run.below_shell(&group.join(), &wide).spawn().unwrap());
    assert_eq!(group.n_killed(), 0, "{stderr}");
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("the smallest step (1 × 16) needs ") && stderr.contains("a capacity of "), "{stderr}");
    assert!(!stderr.contains(" found: "), "{stderr}");
}
