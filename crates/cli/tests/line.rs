//! What is too large is said and not run, and the line is held.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;
#[path = "common/recordings.rs"]
mod recordings;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use common::{json, refused, text};
use recordings::recordings;

fn train(folder: &Path, args: &[&str]) -> Output {
    let out = folder.join("run").display().to_string();
    plimsoll("train", folder, &[&["--out", &out], args].concat())
}

fn plimsoll(what: &str, folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args([what, "--job", "sequence", "--data"]).arg(folder);
    command.args(["--set", "data.buffer_limit=64MiB"]).args(args);
    // A sample that ran all the same would be stopped before the machine is hurt.
    let limit = "ulimit -v 2500000 && exec \"$0\" \"$@\"";
    let mut limited = Command::new("sh");
    limited.args(["-c", limit]).arg(command.get_program()).args(command.get_args()).env("MALLOC_ARENA_MAX", "1");
    limited.output().unwrap()
}

#[test]
fn a_sample_that_does_not_fit_is_refused_with_the_numbers_and_does_not_run() {
    let folder = tempfile::tempdir().unwrap();
    recordings(folder.path(), 20.0);
    for args in [&["--no-supervise", "--capacity", "64MiB"][..], &["--capacity", "64MiB"]] {
        let output = train(folder.path(), &[args, &["--steps", "2", "--overwrite"]].concat());
        let numbers = ["of edge ", "is not certain to fit, and was not run", "of a capacity of 64.00 MiB"];
        refused(&output, &[&numbers[..], &["`data.longest`", "`data.bad_sample = \"skip\"`"]].concat());
        let stderr = text(&output.stderr);
        // Which of the two is held out is nobody's concern here.
        let (long, longer) = (stderr.contains(": long.wav with "), stderr.contains(": longer.wav with "));
        assert!(stderr.contains("; longer than ") && long != longer && !stderr.contains(" others"), "{stderr}");
        assert!(!stderr.contains("starting again"), "{stderr}");
    }
}

#[test]
fn what_is_too_long_for_the_memory_is_left_out_named_and_counted_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    recordings(folder.path(), 20.0);
    let args = ["--no-supervise", "--capacity", "64MiB", "--steps", "8", "--set", "batch.effective_batch_size=8"];
    for stream in ["data.stream=true", "data.stream=false"] {
        let skip = ["--overwrite", "--set", "data.bad_sample=skip", "--set", stream];
        let output = train(folder.path(), &[&args[..], &skip].concat());
        let stderr = text(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        // Which of the two is held out is nobody's concern here.
        for part in ["left out until there is more memory: long", "what is held out and longer than"] {
            assert!(stderr.contains(part), "`{stderr}` lacks `{part}`");
        }
        let report = json(&folder.path().join("run/training_report.json"));
        let names = report["skipped_files"].to_string();
        assert!(names.contains("long.wav with") && names.contains("longer.wav with"), "{names}");
        assert!(report["samples_skipped"].as_u64().unwrap() >= 1, "{report}");
        assert_eq!(report["oom_recoveries"], 0, "{report}");
        let events = fs::read_to_string(folder.path().join("run/events.jsonl")).unwrap();
        let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let steps: Vec<_> = events.iter().filter(|it| it["event"] == "step_done").collect();
        assert_eq!(steps.len(), 8);
        assert!(steps.iter().all(|it| it["peak"].as_u64() <= it["capacity"].as_u64()), "{steps:?}");
    }
}

#[test]
fn what_is_longer_than_wanted_is_refused_skipped_or_cut_and_the_report_says_how_many() {
    let folder = tempfile::tempdir().unwrap();
    recordings(folder.path(), 2.0);
    let bounds = ["--set", "data.shortest=58", "--set", "data.longest=120"];
    let args = ["--no-supervise", "--overwrite", "--steps", "2", "--set", "sequence.head_width=4"];
    let run = |outside: &str| {
        let outside = format!("data.outside={outside}");
        train(folder.path(), &[&args[..], &bounds, &["--set", &outside]].concat())
    };
    refused(
        &run("fail"),
        &[
            "`data.shortest` to `data.longest` are 58 to 120",
            "`data.outside`",
            ".wav: its length in frames of 10 ms is ",
        ],
    );
    for (outside, long) in [("skip", "are skipped"), ("truncate", "are cut")] {
        let output = run(outside);
        let stderr = text(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let report = json(&folder.path().join("run/training_report.json"));
        let told = report["data"].to_string();
        // Those of 0.4 to 0.575 seconds, and of 2.
        let parts =
            ["8 shorter than `data.shortest` are skipped".to_owned(), format!("2 longer than `data.longest` {long}")];
        for part in &parts {
            assert!(stderr.contains(part) && told.contains(part), "`{stderr}` or `{told}` lacks `{part}`");
        }
    }
}

#[test]
fn a_short_run_goes_on_without_what_it_left_out_and_takes_it_back_with_more_memory() {
    let folder = tempfile::tempdir().unwrap();
    recordings(folder.path(), 8.0);
    let args = ["--no-supervise", "--set", "batch.effective_batch_size=8", "--set", "data.bad_sample=skip"];
    let run = |more: &[&str]| {
        let output = train(folder.path(), &[&args[..], more].concat());
        let stderr = text(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        (stderr, json(&folder.path().join("run/training_report.json"))["samples_skipped"].as_u64().unwrap_or(0))
    };
    let (stderr, skipped) = run(&["--steps", "8", "--capacity", "20MiB"]);
    assert!(stderr.contains("left out until there is more memory: long") && 1 <= skipped, "{stderr}");
    let (stderr, again) = run(&["--steps", "16", "--capacity", "20MiB", "--resume"]);
    assert!(stderr.contains("left out until there is more memory: long") && skipped < again, "{stderr}");
    let (stderr, with_more) = run(&["--steps", "24", "--capacity", "1GiB", "--resume"]);
    assert!(!stderr.contains("left out"), "{stderr}");
    assert_eq!(with_more, again, "{stderr}");
}

#[test]
fn a_search_for_a_batch_size_does_not_begin_above_the_line() {
    let folder = tempfile::tempdir().unwrap();
    recordings(folder.path(), 20.0);
    let found = plimsoll("find", folder.path(), &["--capacity", "64MiB"]);
    refused(&found, &["is not certain to fit, and was not run", "of a capacity of 64.00 MiB", "`data.longest`"]);
    refused(&found, &["; longer than ", ".wav with ", " frames"]);
    assert!(!text(&found.stderr).contains("tried"), "{}", text(&found.stderr));
    // A run searches among what it does not leave out.
    let small = ["--no-supervise", "--capacity", "64MiB", "--steps", "2", "--set", "batch.effective_batch_size=8"];
    let auto = ["--set", "batch.batch_size=auto"];
    refused(&train(folder.path(), &[&small[..], &auto].concat()), &["is not certain to fit", "bad_sample"]);
    let skip = ["--overwrite", "--set", "data.bad_sample=skip"];
    let output = train(folder.path(), &[&small[..], &auto, &skip].concat());
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains(" found: ") && stderr.contains("left out until there is more memory"), "{stderr}");
}
