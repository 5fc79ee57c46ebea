//! Bad input of every command: exit code 2, a message that names it, and nothing left behind.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::{json, refused, text};

fn plimsoll(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(args).current_dir(folder);
    command
}

/// Runs a command in an empty folder, and holds that it stays empty.
#[track_caller]
fn check(args: &[&str], parts: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let output = plimsoll(folder.path(), args).output().unwrap();
    refused(&output, parts);
    let stderr = text(&output.stderr);
    assert!(!stderr.contains("panicked"), "{stderr}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{args:?} left something behind");
    output
}

#[test]
fn a_number_that_is_none_is_refused_by_every_command_that_takes_it() {
    for command in ["train", "plan", "config"] {
        for steps in ["2.7", "-5", "0", "nan", "1e30", "many"] {
            check(&[command, "--steps", steps], &["--steps", "`train.steps` is ", "1 to 4294967296"]);
        }
    }
    for command in ["train", "plan", "find", "config"] {
        check(
            &[command, "--seed", "1.5"],
            &["from --seed: `seed` is 1.5, allowed is a whole number, up to 9223372036854775807"],
        );
        check(&[command, "--set", "batch.effective_batch_size=1.5"], &["`batch.effective_batch_size` is 1.5"]);
        check(&[command, "--set", "memory.target=nan"], &["`memory.target` is NaN", "above 0 and at most 1"]);
        check(&[command, "--set", "tarjet=0.8"], &["did you mean `memory.target`?"]);
    }
    for share in ["nan", "-0.1", "1", "inf"] {
        check(&["find", "--batch-reduction", share], &["--batch-reduction", "from 0 to 0.9"]);
    }
    for (flag, allowed) in
        [("--batch-max=0", "1..=1048576"), ("--edge=0", "a length from 1 to 1048576"), ("--edge=1.5", "--edge")]
    {
        check(&["find", flag], &[allowed]);
    }
    for epochs in ["nan", "0", "-1", "inf", "1e7"] {
        check(&["plan", "--epochs", epochs], &["--epochs", "above 0 and at most 1000000"]);
    }
    for temperature in ["nan", "-1", "inf", "1e9", "warm"] {
        check(&["generate", "run", "--temperature", temperature], &["--temperature", "from 0 to 100"]);
    }
    for flag in ["--top-k=-1", "--top-k=nan", "--max-tokens=0", "--batch-size=0", "--seed=1.5"] {
        check(&["generate", "run", flag], &[flag.split_once('=').unwrap().0]);
    }
    for flag in ["--tile=0", "--tile=nan", "--batch-size=0", "--batch-size=1.5"] {
        check(&["upscale", "run", "a.png", flag], &[flag.split_once('=').unwrap().0]);
    }
    for flag in ["--budget=0", "--budget=nan", "--epoch=-1", "--window=0", "--seed=1e3"] {
        let args = ["plan-batches", "--lengths", "l", "--budget", "9", "--out", "o", flag];
        check(&args, &[flag.split_once('=').unwrap().0]);
    }
}

#[test]
fn a_misspelt_word_is_answered() {
    check(&["train", "--job", "txt"], &["from --job: `job`: `txt` is not one of", "did you mean `text`?"]);
    check(
        &["train", "--device", "vulcan"],
        &["from --device: `device`: `vulcan` is no device", "did you mean `vulkan`?"],
    );
    check(&["find", "--objective", "fastest"], &["--objective", "throughput"]);
    check(&["trian"], &["train"]);
    check(&["train", "--stepz", "3"], &["--steps"]);
}

#[test]
fn a_place_that_cannot_be_written_is_refused_before_any_work() {
    for args in [["plan", "--out", "none/plan.json"], ["find", "--out", "none/answer.json"]] {
        // An undecodable folder would be refused later: the place comes first.
        let output =
            check(&[args.as_slice(), &["--data", "/no/such/folder"]].concat(), &["write none/", "no folder none"]);
        assert_eq!(text(&output.stderr).lines().count(), 1);
    }
    check(&["plan", "--out", "."], &["write .: it is a folder"]);
    let args = ["plan-batches", "--lengths", "none.txt", "--budget", "9"];
    check(&[args.as_slice(), &["--out", "none/plan"]].concat(), &["write none/plan: there is no folder none"]);
}

#[cfg(unix)]
#[test]
fn what_is_not_utf_8_panics_no_command() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let broken = OsStr::from_bytes(b"caf\xe9");
    fs::write(folder.path().join("lengths.txt"), "3\n4\n").unwrap();
    let planned = ["plan-batches", "--lengths", "lengths.txt", "--budget", "9", "--out", "plan"];
    for args in [["config"].as_slice(), &["probe"], &planned] {
        let output = plimsoll(folder.path(), args).env("OTHER", broken).env(broken, broken).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    }
    for args in [["train"], ["plan"], ["find"], ["config"]] {
        let output = plimsoll(folder.path(), &args).env("PLIMSOLL__DATA__FOLDER", broken).output().unwrap();
        refused(&output, &["PLIMSOLL__DATA__FOLDER", "its value is not UTF-8"]);
        let output = plimsoll(folder.path(), &args).arg("--data").arg(broken).output().unwrap();
        refused(&output, &["--data", "is not UTF-8", "link"]);
    }
    let output = plimsoll(folder.path(), &["generate"]).arg(broken).output().unwrap();
    refused(&output, &["config.toml", "no such file"]);
}

#[cfg(unix)]
#[test]
fn a_second_process_on_a_run_says_at_once_for_whom_it_waits() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    use common::Child;
    let folder = tempfile::tempdir().unwrap();
    let small = ["--set", "sr.channels=4", "--set", "sr.blocks=1", "--steps", "100000", "--out", "run"];
    let mut train = plimsoll(folder.path(), &["train", "--no-supervise"]);
    let mut first = Child::start(train.args(small).stdout(Stdio::null()).stderr(Stdio::piped()));
    let mut lines = BufReader::new(first.stderr.take().unwrap()).lines();
    lines.find(|line| line.as_ref().unwrap().starts_with("step ")).unwrap().unwrap();
    let mut train = plimsoll(folder.path(), &["train", "--resume", "--out", "run"]);
    let mut second = Child::start(train.stdout(Stdio::null()).stderr(Stdio::piped()));
    let mut told = BufReader::new(second.stderr.take().unwrap()).lines();
    let line = told.next().unwrap().unwrap();
    let id = first.id().to_string();
    assert!(line.starts_with("waiting ") && line.contains("run: process ") && line.contains(&id), "{line}");
    // The one that waits is refused, or goes on as soon as the first has ended.
    first.signal("INT");
    lines.for_each(drop);
    assert_eq!(first.wait().unwrap().code(), Some(130));
    let is_next = |line: &str| line.starts_with("device ") || line.starts_with("error: ");
    assert!(told.any(|line| is_next(&line.unwrap())));
    second.signal("INT");
    told.for_each(drop);
    second.wait().unwrap();
    assert!(json(&folder.path().join("run/training_report.json"))["steps"].as_u64().is_some_and(|it| 0 < it));
}
