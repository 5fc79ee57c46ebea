//! Runs that several devices of one process, or several processes, make together.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]

#[path = "../common/mod.rs"]
mod common;
mod input;
mod machines;
mod memory;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use common::{SMALL, json, refused, text};

/// How long anything may take that is waited for: far more than it does, on a machine with other work to do.
const PATIENCE: Duration = Duration::from_mins(5);

/// An epoch of a few steps.
const SHORT: [&str; 1] = ["sr.crops_per_image=4"];

fn plimsoll(args: &[&str], out: &Path, sets: &[&str]) -> Command {
    with_settings(Command::new(env!("CARGO_BIN_EXE_plimsoll")), args, out, sets)
}

fn with_settings(mut command: Command, args: &[&str], out: &Path, sets: &[&str]) -> Command {
    command.arg("train").args(["--seed", "1", "--out"]).arg(out).args(args);
    SMALL.iter().chain(&SHORT).chain(sets).for_each(|set| {
        command.args(["--set", set]);
    });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // Open MPI starts no more ranks than there are cores, and none for root, unless it is told to.
    for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"] {
        command.env(name, "1");
    }
    command
}

/// Returns the command that starts ranks of the program, or says why that is skipped.
fn mpirun(n: u32, args: &[&str], out: &Path, sets: &[&str]) -> Option<Command> {
    let mut command = Command::new("mpirun");
    command.args(["-n", &n.to_string(), env!("CARGO_BIN_EXE_plimsoll")]);
    has_ranks().then(|| with_settings(command, args, out, sets))
}

/// Whether this build has MPI, and this machine starts its ranks; a busy one may fail to once.
fn has_ranks() -> bool {
    static IS_THERE: LazyLock<bool> = LazyLock::new(|| {
        let starts = || Command::new("mpirun").args(["-n", "2", "true"]).output().is_ok_and(|it| it.status.success());
        (0..3).any(|_| starts())
    });
    if !cfg!(feature = "mpi") {
        eprintln!("skipped: this build leaves MPI out");
        return false;
    }
    if !*IS_THERE {
        eprintln!("skipped: `mpirun -n 2 true` fails here");
    }
    *IS_THERE
}

/// Has a program start its ranks by a launcher of one's own, which knows the real one as `$MPIRUN`.
fn own_launcher<'c>(command: &'c mut Command, folder: &Path, script: &str) -> &'c mut Command {
    let path = std::env::var_os("PATH").unwrap();
    let real = std::env::split_paths(&path).map(|it| it.join("mpirun")).find(|it| it.is_file()).unwrap();
    let own = folder.join("mpirun");
    fs::write(&own, script).unwrap();
    fs::set_permissions(&own, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let paths = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(paths).unwrap()).env("MPIRUN", real)
}

#[track_caller]
fn done(mut command: Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    output
}

/// Returns the weights that a run has saved, as they lie in the file behind its head.
fn weights(out: &Path, step: u64) -> Vec<f32> {
    let bytes = fs::read(out.join(format!("checkpoints/step-{step:08}/weights.safetensors"))).unwrap();
    let (head, rest) = bytes.split_at(8);
    let head = usize::try_from(u64::from_le_bytes(head.try_into().unwrap())).unwrap();
    rest[head..].chunks_exact(4).map(|it| f32::from_le_bytes(it.try_into().unwrap())).collect()
}

#[track_caller]
fn assert_close(a: &[f32], b: &[f32], what: &str) {
    let most = a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(a.len() == b.len() && !a.is_empty() && most <= 1e-5, "{what}: {most}");
}

/// Returns the folders of all ranks that took part, that of the first before the others.
fn folders(out: &Path) -> Vec<PathBuf> {
    let others = fs::read_dir(out.join("ranks")).into_iter().flatten().flatten().map(|it| it.path());
    std::iter::once(out.to_owned()).chain(others).collect()
}

fn steps_of(folder: &Path) -> Vec<Value> {
    let log = fs::read_to_string(folder.join("events.jsonl")).unwrap();
    let events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|it| it["event"] == "step_done").collect()
}

/// Whether every epoch but the last has every sample once, whichever rank has run it, and how many those are.
#[track_caller]
fn check_epochs(out: &Path) -> usize {
    let mut epochs: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for step in folders(out).iter().flat_map(|it| steps_of(it)) {
        let parts = step["micro_batches"].as_array().unwrap().iter();
        let ids = parts.flat_map(|it| it["ids"].as_array().unwrap()).map(|it| it.as_u64().unwrap());
        epochs.entry(step["epoch"].as_u64().unwrap()).or_default().extend(ids);
    }
    let _last = epochs.pop_last();
    for ids in epochs.values_mut() {
        ids.sort_unstable();
    }
    let first = epochs.values().next().cloned().unwrap_or_default();
    assert!(first.windows(2).all(|it| it[0] != it[1]), "a sample came twice");
    assert!(epochs.values().all(|it| *it == first), "an epoch lacks samples, or has some twice");
    epochs.len()
}

#[test]
fn every_job_comes_to_the_weights_of_one_device_on_two_of_unequal_memory() {
    let folder = tempfile::tempdir().unwrap();
    for job in ["sr", "sequence", "multitask", "text"] {
        let (one, two) = (folder.path().join(format!("{job}-1")), folder.path().join(format!("{job}-2")));
        let args = ["--job", job, "--steps", "20", "--no-supervise"];
        // Together two devices with two samples each hold what one with four holds.
        let sets = ["train.validate_every=20", "data.stream=false"];
        done(plimsoll(&args, &one, &[&sets[..], &["batch.batch_size=4"]].concat()));
        let devices = ["--device", "flex, flex", "--capacity", "300 MiB, 200 MiB"];
        done(plimsoll(&[&args[..], &devices].concat(), &two, &[&sets[..], &["batch.batch_size=2"]].concat()));
        assert_close(&weights(&one, 20), &weights(&two, 20), job);
        let report = json(&two.join("training_report.json"));
        let ranks = report["ranks"].as_array().unwrap();
        let budgets: Vec<_> = ranks.iter().map(|it| it["budget_bytes"].as_u64().unwrap() >> 20).collect();
        assert_eq!(budgets, [270, 180], "{job}");
        let seen = json(&one.join("training_report.json"))["samples_seen"].as_u64();
        assert_eq!(report["samples_seen"].as_u64(), seen, "{job}");
    }
}

/// Two devices of one process, which have room for anything here.
const TWO: [&str; 4] = ["--device", "flex, flex", "--capacity", "300 MiB, 200 MiB"];

#[test]
fn two_devices_have_every_sample_once_of_a_stream_and_in_steps_of_one_batch() {
    let folder = tempfile::tempdir().unwrap();
    let (stream, one_batch) = ("data.stream=true", "batch.effective_unit=batch");
    for (job, set) in [("sequence", stream), ("multitask", stream), ("text", one_batch)] {
        let out = folder.path().join(job);
        let args = [&["--job", job, "--steps", "60", "--no-supervise"], &TWO[..]].concat();
        done(plimsoll(&args, &out, &[set, "batch.batch_size=16", "train.validate_every=60"]));
        assert!(1 <= check_epochs(&out), "{job}: one epoch is never whole");
        let steps: Vec<_> = folders(&out).iter().map(|it| steps_of(it)).collect();
        for (first, other) in steps[0].iter().zip(&steps[1]) {
            assert_eq!((&first["step"], &first["loss"]), (&other["step"], &other["loss"]), "{job}");
        }
        assert_eq!((steps[0].len(), steps[1].len()), (60, 60), "{job}");
    }
}

#[test]
fn ranks_leave_a_damaged_checkpoint_for_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let (calm, damaged) = (folder.path().join("calm"), folder.path().join("damaged"));
    let sets = ["batch.batch_size=4", "train.validate_every=100", "train.checkpoint_every=5"];
    let args = |n_steps: &'static str| [&["--steps", n_steps, "--deterministic", "--no-supervise"], &TWO[..]].concat();
    done(plimsoll(&args("30"), &calm, &sets));
    done(plimsoll(&args("20"), &damaged, &sets));
    let newest = damaged.join("checkpoints/step-00000020/weights.safetensors");
    let bytes = fs::read(&newest).unwrap();
    fs::write(&newest, &bytes[..bytes.len() / 2]).unwrap();
    done(plimsoll(&[&args("30")[..], &["--resume"]].concat(), &damaged, &sets));
    let bits = |out: &Path| weights(out, 30).into_iter().map(f32::to_bits).collect::<Vec<_>>();
    assert_eq!(bits(&calm), bits(&damaged));
    let ids = |out: &Path| folders(out).iter().map(|it| steps_of(it).len()).collect::<Vec<_>>();
    assert_eq!(ids(&damaged), [30, 30]);
    check_epochs(&damaged);
}

#[test]
fn a_rank_without_room_is_refused_before_the_first_step_and_the_run_goes_on_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let tight = ["--device", "flex, flex", "--capacity", "300 MiB, 64 KiB", "--steps", "20", "--no-supervise"];
    let refused_rank = |args: &[&str]| {
        let output = plimsoll(args, &out, &[]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("64.00 KiB"), "{}", text(&output.stderr));
    };
    refused_rank(&tight);
    assert!(!out.exists(), "it is left as it was");
    done(plimsoll(&[&["--steps", "10", "--no-supervise"], &TWO[..]].concat(), &out, &[]));
    refused_rank(&[&tight[..], &["--resume"]].concat());
    done(plimsoll(&[&["--steps", "20", "--no-supervise", "--resume"], &TWO[..]].concat(), &out, &[]));
    assert_eq!(folders(&out).iter().map(|it| steps_of(it).len()).collect::<Vec<_>>(), [20, 20]);
    check_epochs(&out);
}

#[test]
fn what_a_user_has_to_mend_ends_ranks_at_once() {
    if !has_ranks() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    for (args, words) in [(["--data", "nowhere"], "nowhere"), (["--capacity", "64 KiB"], "a capacity of at least")] {
        let output = plimsoll(&[&["--ranks", "2"], &args[..]].concat(), &out, &[]).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(words) && !stderr.contains("starting again"), "{stderr}");
        assert!(!out.exists());
    }
}

#[test]
fn processes_come_to_the_weights_of_one_and_go_on_in_another_number() {
    let folder = tempfile::tempdir().unwrap();
    let (one, ranks) = (folder.path().join("one"), folder.path().join("ranks"));
    let sets = ["batch.batch_size=4", "train.validate_every=50"];
    let args = |n_steps: &'static str| ["--steps", n_steps];
    let Some(four) = mpirun(4, &args("20"), &ranks, &sets) else { return };
    done(four);
    done(plimsoll(&args("20"), &one, &sets));
    assert_close(&weights(&one, 20), &weights(&ranks, 20), "four ranks");
    for (n, n_steps) in [(2, "30"), (3, "40")] {
        let going_on = mpirun(n, &[&args(n_steps)[..], &["--resume"]].concat(), &ranks, &sets).unwrap();
        done(going_on);
        done(plimsoll(&[&args(n_steps)[..], &["--resume"]].concat(), &one, &sets));
    }
    assert!(2 <= check_epochs(&ranks), "one epoch shows little");
    assert_close(&weights(&one, 40), &weights(&ranks, 40), "another number of ranks");
}

/// Returns the processes of the ranks of a run: those with its folder among their arguments that know which rank they are.
fn ranks_of(out: &Path) -> BTreeMap<u32, u32> {
    let all = fs::read_dir("/proc").unwrap().flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
    let out = out.display().to_string();
    let rank = |pid: u32| {
        let read = |name: &str| text(&fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default());
        let environment = read("environ");
        let named = |name: &str| environment.split('\0').find_map(|it| it.strip_prefix(name)?.parse().ok());
        let rank = named("PMI_RANK=").or_else(|| named("OMPI_COMM_WORLD_RANK="));
        Some((rank.filter(|_| read("cmdline").contains(&out))?, pid))
    };
    all.filter_map(rank).collect()
}

fn last_checkpoint(out: &Path) -> Option<u64> {
    let entries = fs::read_dir(out.join("checkpoints")).ok()?.flatten();
    entries.filter_map(|it| it.file_name().to_str()?.strip_prefix("step-")?.parse().ok()).max()
}

#[track_caller]
fn wait(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "no {what} after {PATIENCE:?}");
        sleep(Duration::from_millis(5));
    }
}

/// Kills so many ranks of runs; `PLIMSOLL_KILLS` says another number.
const KILLS: usize = 3;

/// The most that are killed of one run, which then ends by itself.
const KILLS_OF_RUN: usize = 10;

/// The longest that ranks are left alone, in milliseconds: a part of it they do nothing but begin.
const CALM: u64 = 1_500;

/// Kills one of two ranks at a moment, once both are there; returns whether the run was still under way.
fn kill_one(child: &mut common::Child, out: &Path, (rank, millis): (u32, u64)) -> bool {
    let has_ended = |child: &mut common::Child| child.try_wait().unwrap().is_some();
    let begun = Instant::now();
    while ranks_of(out).len() < 2 {
        assert!(begun.elapsed() < PATIENCE, "no two ranks after {PATIENCE:?}");
        if has_ended(child) {
            return false;
        }
        sleep(Duration::from_millis(5));
    }
    sleep(Duration::from_millis(millis));
    let Some(process) = ranks_of(out).get(&rank).copied() else { return !has_ended(child) };
    // One that has ended meanwhile is a rank less to kill.
    drop(Command::new("kill").args(["-KILL", &process.to_string()]).output());
    wait("its end", || !ranks_of(out).values().any(|it| *it == process));
    true
}

#[test]
fn a_rank_that_is_killed_at_any_moment_costs_no_sample_and_changes_no_bit() {
    if !has_ranks() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let calm = folder.path().join("calm");
    let sets = ["batch.batch_size=4", "train.validate_every=100", "train.checkpoint_every=5", "train.max_restarts=100"];
    let args = ["--ranks", "2", "--steps", "400", "--deterministic"];
    done(plimsoll(&args, &calm, &sets));
    let bits = |out: &Path| weights(out, 400).into_iter().map(f32::to_bits).collect::<Vec<_>>();
    let n_kills = std::env::var("PLIMSOLL_KILLS").map_or(KILLS, |it| it.parse().unwrap());
    let (mut n_killed, mut dice) = (0, 1_u64);
    while n_killed < n_kills {
        let killed = folder.path().join(format!("killed-{n_killed}"));
        let mut child = common::Child::start(&mut plimsoll(&args, &killed, &sets));
        for _ in 0..KILLS_OF_RUN.min(n_kills - n_killed) {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let moment = ((dice >> 63) as u32, (dice >> 32) % CALM);
            if !kill_one(&mut child, &killed, moment) {
                break;
            }
        }
        let output = child.output();
        let stderr = text(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        n_killed += stderr.matches("killed by SIGKILL").count();
        eprintln!("{n_killed} killed");
        assert!(2 <= check_epochs(&killed), "one epoch shows little");
        assert_eq!(bits(&calm), bits(&killed));
    }
}

#[test]
fn a_signal_ends_all_ranks_after_one_step_and_the_run_goes_on() {
    if !has_ranks() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let sets = ["train.validate_every=1000", "train.checkpoint_every=10"];
    for (name, code) in [("TERM", 143), ("INT", 130)] {
        let resume: &[&str] = if out.exists() { &["--resume"] } else { &[] };
        let args = [&["--ranks", "2", "--steps", "100000"], resume].concat();
        let before = last_checkpoint(&out).unwrap_or(0);
        let child = common::Child::start(&mut plimsoll(&args, &out, &sets));
        wait("a checkpoint", || last_checkpoint(&out).is_some_and(|last| before + 10 <= last));
        child.signal(name);
        let output = child.output();
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains("--resume --ranks 2"), "{}", text(&output.stdout));
    }
    let ends: Vec<_> = folders(&out).iter().map(|it| steps_of(it).len()).collect();
    assert_eq!(ends[0], ends[1], "all ranks end after the same step");
}

#[test]
fn ranks_that_cannot_be_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let mut started = plimsoll(&["--steps", "2"], &out, &[]);
    // As a launcher starts one of two.
    started.env("PMI_RANK", "0").env("PMI_SIZE", "2");
    if !cfg!(feature = "mpi") {
        refused(&started.output().unwrap(), &["train on 2 ranks", "--features mpi"]);
        refused(&plimsoll(&["--ranks", "2"], &out, &[]).output().unwrap(), &["train on 2 ranks", "--features mpi"]);
        assert!(!out.exists());
        return;
    }
    let mut nowhere = plimsoll(&["--ranks", "2"], &out, &[]);
    nowhere.env("PATH", folder.path());
    refused(&nowhere.output().unwrap(), &["start 2 ranks", "`mpirun` is not on the path"]);
    if !has_ranks() {
        return;
    }
    let mut devices = mpirun(2, &["--device", "flex, flex, flex"], &out, &[]).unwrap();
    let output = devices.output().unwrap();
    assert!(text(&output.stderr).contains("train on 2 ranks: `device` names 3 devices"), "{}", text(&output.stderr));
    assert!(!output.status.success());
    let script =
        "[ \"$PMI_RANK$OMPI_COMM_WORLD_RANK\" = 1 ] && set -- \"$@\" --set train.learning_rate=0.5; exec \"$@\"";
    let mut other = Command::new("mpirun");
    other.args(["-n", "2", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_plimsoll")]);
    let output = with_settings(other, &["--steps", "2"], &out, &[]).output().unwrap();
    let stderr = text(&output.stderr);
    assert!(stderr.contains("`train.learning_rate` is 0.5 on rank 1, and 0.002 on rank 0"), "{stderr}");
    assert!(!output.status.success());
}
