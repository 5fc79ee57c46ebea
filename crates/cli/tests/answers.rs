//! What a search and a plan answer, and that it is of use.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{Child, json, text};

/// How long anything may take that is waited for: far more than it does, on a machine with other work to do.
const PATIENCE: Duration = Duration::from_mins(5);

/// A small model.
const MULTITASK: [&str; 10] = [
    "--job",
    "multitask",
    "--capacity",
    "512MiB",
    "--set",
    "multitask.channels=4",
    "--set",
    "multitask.features=8",
    "--set",
    "multitask.image_size=16",
];

fn plimsoll(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(args).current_dir(folder).output().unwrap()
}

/// Runs the command that an answer says uses it, for one step.
#[track_caller]
fn follow(folder: &Path, answer: &Output) -> String {
    assert!(answer.status.success(), "{}", text(&answer.stderr));
    let told = text(&answer.stdout);
    let command = told.lines().find_map(|line| line.strip_prefix("use it: ")).unwrap_or_else(|| panic!("{told}"));
    assert!(told.contains("what this is: ") && told.contains("others differ: "), "{told}");
    let script = format!("{command} --steps 1 --overwrite --out run --no-supervise");
    let output = Command::new("sh").args(["-c", &script]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{script}: {}", text(&output.stderr));
    text(&output.stderr)
}

#[test]
fn what_is_found_is_taken_by_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let found = plimsoll(folder.path(), &[&["find", "--out", "found.json"][..], &MULTITASK].concat());
    follow(folder.path(), &found);
    let answers = json(&folder.path().join("found.json"));
    let batch = answers["answers"][0]["batch"].as_u64().unwrap();
    assert!(batch <= 32, "a step has 32 samples, and {batch} were found");
    let told = text(&found.stdout);
    assert!(told.contains("limited by           the step, of 32 samples"), "{told}");
    // All of it fits with room to spare, so that nothing is taken off.
    assert!(batch == 32 && told.contains("what this is: a micro-batch padded to 5 × 5 "), "{told}");
}

#[test]
fn what_is_found_for_an_edge_is_a_run_of_that_edge() {
    let folder = tempfile::tempdir().unwrap();
    let small = ["--capacity", "512MiB", "--set", "sr.channels=2", "--set", "sr.blocks=1"];
    let found = plimsoll(folder.path(), &[&["find", "--edge", "24"][..], &small].concat());
    let told = follow(folder.path(), &found);
    assert!(told.contains("patch 24 to 24"), "{told}");
    let found = plimsoll(folder.path(), &[&["find", "--edge", "26"][..], &small].concat());
    let told = text(&found.stdout);
    assert!(told.contains("use it: `train` takes patches that are multiples of 4 only"), "{told}");
}

#[test]
fn what_is_planned_is_taken_by_a_run() {
    let folder = tempfile::tempdir().unwrap();
    follow(folder.path(), &plimsoll(folder.path(), &[&["plan"][..], &MULTITASK].concat()));
}

/// A model whose steps take longer than a person has patience, and no memory worth mentioning.
const SLOW: [&str; 6] = ["--capacity", "4GiB", "--set", "sr.channels=256", "--set", "sr.blocks=16"];

/// Begins a command, waits until it says how far it is, and asks it to end; returns how it ended, after how long, and what
/// it said.
fn ended_while(folder: &Path, args: &[&str], shown: &str, signal: &str) -> (Option<i32>, Duration, String) {
    let (said, temporary) = (folder.join("said"), folder.join("temporary"));
    fs::create_dir_all(&temporary).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(args).args(SLOW).current_dir(folder).env("TMPDIR", &temporary);
    let mut child = Child::start(command.stderr(File::create(&said).unwrap()));
    let said = || fs::read_to_string(&said).unwrap();
    let start = Instant::now();
    while !said().contains(shown) {
        assert!(start.elapsed() < PATIENCE && child.try_wait().unwrap().is_none(), "{args:?}: {}", said());
        sleep(Duration::from_millis(10));
    }
    let asked = Instant::now();
    child.signal(signal);
    let code = child.wait().unwrap().code();
    let left: Vec<_> = fs::read_dir(&temporary).unwrap().collect();
    assert!(left.is_empty(), "{args:?} leave {left:?}");
    (code, asked.elapsed(), said())
}

#[test]
fn planning_and_finding_say_how_far_they_are_and_end_at_once_with_nothing_left() {
    let found = ["train", "--no-supervise", "--out", "run", "--set", "batch.batch_size=auto"];
    for (args, shown, signal, expected) in [
        (&["plan", "--out", "plan.json"][..], "planning    training: ", "INT", 130),
        (&["find", "--out", "found.json"], "training: ", "TERM", 143),
        (&found, "training: ", "INT", 130),
        (&["train", "--no-supervise", "--out", "run"], "planning    training: ", "TERM", 143),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (code, took, said) = ended_while(folder.path(), args, shown, signal);
        assert_eq!(code, Some(expected), "{args:?}: {said}");
        assert!(said.contains(" s so far") && said.contains("interrupted"), "{args:?}: {said}");
        // It is the signal that ends it, and not the end of a step that takes minutes; the machine may have other work.
        assert!(took < PATIENCE / 5, "{args:?} take {took:?} to end");
        for left in ["plan.json", "found.json", "run"] {
            assert!(!folder.path().join(left).exists(), "{args:?} leave {left}");
        }
    }
}
