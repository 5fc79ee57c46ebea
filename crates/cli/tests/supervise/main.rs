//! A run whose processes are killed, and that ends well all the same.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]

#[path = "../common/mod.rs"]
mod common;
mod deaths;
mod groups;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use common::{json, refused, text};

/// How long anything may take that is waited for: far more than it does, on a machine with other work to do.
const PATIENCE: Duration = Duration::from_mins(5);

/// A run of seconds, of several epochs.
const SMALL: [&str; 14] = [
    "train",
    "--set",
    "sr.channels=4",
    "--set",
    "sr.blocks=1",
    "--set",
    "sr.crops_per_image=4",
    "--set",
    "train.validate_every=40",
    "--set",
    "train.checkpoint_every=5",
    "--seed",
    "1",
    "--out",
];

/// Knobs whose largest rung needs far more than the smallest; the way up begins after a checkpoint.
const LARGE: [&str; 14] = [
    "--set",
    "data.buffer_limit=32 MiB",
    "--set",
    "policy.warm_up_steps=7",
    "--set",
    "batch.effective_batch_size=64",
    "--set",
    "batch.batch_min=2",
    "--set",
    "batch.batch_max=64",
    "--set",
    "batch.patch_max=64",
    "--set",
    "sr.channels=8",
];

/// The room that a limit leaves above what a run on its smallest rung takes: less than the largest needs.
const ROOM_KIB: u64 = 40 << 10;

/// A run in a folder that goes with it.
struct Run {
    folder: TempDir,
}

impl Run {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.args(SMALL).arg(self.out()).args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Returns the run below a shell that does something first, such as setting a limit.
    fn below_shell(&self, first: &str, args: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{first} && exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_plimsoll")]);
        command.args(SMALL).arg(self.out()).args(LARGE).args(args).env("MALLOC_ARENA_MAX", "1");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Checks that a worker died of memory, that the policy was told, and that the log replays.
    #[track_caller]
    fn check_death(&self, stderr: &str, verdict: &str) {
        assert!(stderr.contains(verdict), "{stderr}");
        let events = events(&self.out());
        let death = events.iter().find(|it| it["event"] == "step_failed" && it["stage"] == "process");
        assert!(death.is_some(), "no death in the log: {stderr}");
        let mut replay = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        let replay = replay.arg("replay").arg(self.out().join("events.jsonl")).output().unwrap();
        assert!(replay.status.success(), "{}", text(&replay.stdout));
    }

    /// Starts the run in a process group of its own, as a terminal would.
    fn start(&self, args: &[&str]) -> Child {
        self.command(args).process_group(0).spawn().unwrap()
    }

    /// Waits for a checkpoint of this step or a later one.
    fn wait_for_checkpoint(&self, step: u64) {
        wait("a checkpoint", || last_checkpoint(&self.out()).is_some_and(|last| step <= last));
    }

    /// Checks that the log holds every step once, and in each epoch every sample once.
    #[track_caller]
    fn check(&self, n_steps: usize) {
        let mut steps: Vec<Value> = Vec::new();
        for event in events(&self.out()).into_iter().filter(|it| it["event"] == "step_done") {
            // A step that is there again was undone by a process that died.
            steps.truncate(usize::try_from(event["step"].as_u64().unwrap()).unwrap());
            assert_eq!(event["step"], steps.len());
            steps.push(event);
        }
        assert_eq!(steps.len(), n_steps);
        let last = steps[n_steps - 1]["epoch"].as_u64().unwrap();
        assert!(last > 0, "one epoch shows little");
        let mut whole = None;
        for epoch in 0..=last {
            let of_epoch = steps.iter().filter(|it| it["epoch"] == epoch);
            let parts = of_epoch.flat_map(|it| it["micro_batches"].as_array().unwrap());
            let ids: Vec<_> =
                parts.flat_map(|it| it["ids"].as_array().unwrap()).map(|it| it.as_u64().unwrap()).collect();
            let once: BTreeSet<_> = ids.iter().copied().collect();
            assert_eq!(once.len(), ids.len(), "a sample came twice in epoch {epoch}");
            if epoch < last {
                assert_eq!(*whole.get_or_insert_with(|| once.clone()), once, "epoch {epoch} lacks samples");
            }
        }
    }
}

impl Drop for Run {
    /// What a failed test leaves running would disturb the others.
    fn drop(&mut self) {
        for pid in processes_of(&self.out()) {
            signal("KILL", pid);
        }
    }
}

#[track_caller]
fn wait(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "no {what} after {PATIENCE:?}");
        sleep(Duration::from_millis(5));
    }
}

fn events(run: &Path) -> Vec<Value> {
    let log = fs::read_to_string(run.join("events.jsonl")).unwrap();
    log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn last_checkpoint(run: &Path) -> Option<u64> {
    let entries = fs::read_dir(run.join("checkpoints")).ok()?.flatten();
    entries.filter_map(|it| it.file_name().to_str()?.strip_prefix("step-")?.parse().ok()).max()
}

/// Returns the processes that have the run directory among their arguments.
fn processes_of(run: &Path) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
    let run = run.display().to_string();
    all.filter(|pid| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|it| text(&it).contains(&run))).collect()
}

/// Returns the worker of a run, once there is one.
fn worker(run: &Path, supervisor: u32) -> u32 {
    let found = || processes_of(run).into_iter().find(|pid| *pid != supervisor);
    wait("worker", || found().is_some());
    found().unwrap()
}

fn signal(name: &str, pid: u32) {
    // A process that has ended meanwhile needs no signal.
    drop(Command::new("kill").args([&format!("-{name}"), "--", &pid.to_string()]).stderr(Stdio::null()).status());
}

fn end(child: Child) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    (status.code(), text(&stderr))
}

/// Kills the worker at two checkpoints, and returns what was said until the run had finished all the same.
#[track_caller]
fn finish_though_killed(run: &Run, child: Child) -> String {
    for step in [10, 20] {
        run.wait_for_checkpoint(step);
        signal("KILL", worker(&run.out(), child.id()));
    }
    let (code, stderr) = end(child);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(stderr.matches("killed by SIGKILL after step").count(), 2, "{stderr}");
    stderr
}

#[test]
fn a_worker_that_is_killed_is_started_again_and_finishes() {
    let run = Run::new();
    let child = run.start(&["--steps", "40"]);
    let stderr = finish_though_killed(&run, child);
    assert!(stderr.contains("nothing says that memory was the cause: starting again at step"), "{stderr}");
    assert!(events(&run.out()).iter().all(|it| it["event"] != "step_failed"));
    run.check(40);
}

#[test]
fn a_stream_whose_worker_is_killed_ends_with_the_same_weights_where_it_is_deterministic() {
    let small = ["sequence.head_width=4", "sequence.blocks=1", "multitask.channels=4", "multitask.image_size=16"];
    let streamed = ["data.stream=true", "batch.batch_size=4", "data.look_ahead=64"];
    let sets: Vec<_> = small.iter().chain(&streamed).flat_map(|it| ["--set", it]).collect();
    for job in ["sequence", "multitask"] {
        let args = [&["--job", job, "--deterministic", "--steps", "60"][..], &sets].concat();
        let (calm, killed) = (Run::new(), Run::new());
        let (code, stderr) = end(calm.start(&args));
        assert_eq!(code, Some(0), "{stderr}");
        finish_though_killed(&killed, killed.start(&args));
        killed.check(60);
        let weights = |run: &Run| fs::read(run.out().join("checkpoints/step-00000060/weights.safetensors")).unwrap();
        assert!(weights(&calm) == weights(&killed), "{job}: the weights differ");
    }
}

#[test]
fn a_run_that_overwrites_another_begins_again_at_checkpoints_of_its_own() {
    let run = Run::new();
    assert_eq!(end(run.start(&["--steps", "2"])).0, Some(0));
    let of_the_old = run.out().join("checkpoints/step-00099999");
    fs::rename(run.out().join("checkpoints/step-00000002"), &of_the_old).unwrap();
    // A death that a checkpoint has made a bygone does not count among those that are allowed.
    let child = run.start(&["--steps", "40", "--overwrite", "--set", "train.max_restarts=1"]);
    wait("end of the old run", || !of_the_old.exists());
    let stderr = finish_though_killed(&run, child);
    assert!(!stderr.contains("at step 99999"), "{stderr}");
    run.check(40);
}

#[test]
fn a_supervisor_that_is_killed_leaves_nothing_running_and_the_run_goes_on_later() {
    let run = Run::new();
    let mut child = run.start(&["--steps", "100000"]);
    run.wait_for_checkpoint(10);
    child.kill().unwrap();
    child.wait().unwrap();
    wait("end of the worker", || processes_of(&run.out()).is_empty());
    let done = last_checkpoint(&run.out()).unwrap();
    let n_steps = done + 10;
    let (code, stderr) = end(run.start(&["--resume", "--steps", &n_steps.to_string()]));
    assert_eq!(code, Some(0), "{stderr}");
    run.check(usize::try_from(n_steps).unwrap());
}

#[test]
fn a_signal_to_the_group_of_the_supervisor_reaches_the_worker_once() {
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        let run = Run::new();
        let child = run.start(&["--steps", "100000"]);
        run.wait_for_checkpoint(5);
        let group = format!("-{}", child.id());
        assert!(Command::new("kill").args([&format!("-{name}"), "--", &group]).status().unwrap().success());
        let (ended, stderr) = end(child);
        assert_eq!(ended, Some(code), "{stderr}");
        assert_eq!(stderr.matches("ending after this step").count(), 1, "{stderr}");
        assert!(processes_of(&run.out()).is_empty());
        let steps = json(&run.out().join("training_report.json"))["steps"].as_u64();
        assert_eq!(last_checkpoint(&run.out()), steps);
    }
}

#[test]
fn a_run_without_a_supervisor_is_one_process() {
    let run = Run::new();
    let child = run.start(&["--steps", "100000", "--no-supervise"]);
    run.wait_for_checkpoint(5);
    assert_eq!(processes_of(&run.out()), [child.id()]);
    signal("TERM", child.id());
    assert_eq!(end(child).0, Some(143));
}

#[test]
fn bad_input_is_not_tried_again() {
    let run = Run::new();
    let output = run.command(&["--data", "/no/such/folder"]).output().unwrap();
    refused(&output, &["no such folder"]);
    assert_eq!(text(&output.stderr).matches("failed to").count(), 1);
}

#[test]
fn a_supervisor_that_gives_up_says_what_each_worker_died_of() {
    let run = Run::new();
    let args = ["--steps", "100000", "--set", "train.max_restarts=1", "--set", "train.checkpoint_every=100000"];
    let child = run.start(&args);
    let mut last = None;
    for _ in 0..2 {
        wait("new worker", || processes_of(&run.out()).iter().any(|it| *it != child.id() && Some(*it) != last));
        let pid = worker(&run.out(), child.id());
        signal("KILL", pid);
        last = Some(pid);
        wait("end of the worker", || !processes_of(&run.out()).contains(&pid));
    }
    let (code, stderr) = end(child);
    assert_eq!(code, Some(1), "{stderr}");
    let (_, report) = stderr.split_once("failed to finish the run").unwrap();
    assert!(report.contains("died 2 times without a new checkpoint"), "{report}");
    assert_eq!(report.matches("killed by SIGKILL").count(), 2, "{report}");
}

/// Returns the address space that a run on its smallest rung takes, in KiB.
fn small_address_space() -> u64 {
    let run = Run::new();
    let fixed = [
        "--no-supervise",
        "--capacity",
        "2GiB",
        "--steps",
        "100000",
        "--set",
        "batch.batch_size=2",
        "--set",
        "batch.patch_max=16",
    ];
    let child = run.below_shell("true", &fixed).spawn().unwrap();
    run.wait_for_checkpoint(5);
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    signal("KILL", child.id());
    end(child);
    let peak = status.lines().find_map(|it| it.strip_prefix("VmPeak:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_run_that_outgrows_its_address_space_finishes_with_less() {
    let run = Run::new();
    let limit = format!("ulimit -v {}", small_address_space() + ROOM_KIB);
    let (code, stderr) = end(run.below_shell(&limit, &["--steps", "16", "--capacity", "2GiB"]).spawn().unwrap());
    assert_eq!(code, Some(0), "{stderr}");
    run.check_death(&stderr, "killed by SIGABRT");
    assert!(stderr.contains("was refused while"), "{stderr}");
    run.check(16);
}
