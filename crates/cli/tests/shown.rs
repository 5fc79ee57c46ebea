//! What a run shows while it goes on, where nobody wants to see it, where a program reads it, and what its phases take.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use common::{SMALL, refused, text};

const N_STEPS: usize = 6;

fn train(folder: &Path, args: &[&str]) -> Output {
    let steps = N_STEPS.to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(["train", "--out", "run", "--overwrite", "--steps", &steps]).args(args).current_dir(folder);
    command.args(SMALL.iter().flat_map(|it| ["--set", it]));
    command.output().unwrap()
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_quiet_run_says_what_came_of_it_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    for supervised in [&["--quiet"][..], &["--quiet", "--no-supervise"]] {
        let output = train(folder.path(), supervised);
        assert_eq!((output.status.success(), text(&output.stderr).as_str()), (true, ""));
        assert!(text(&output.stdout).contains("steady state"), "{}", text(&output.stdout));
    }
    // What went wrong is said all the same.
    refused(&train(folder.path(), &["--quiet", "--device", "abacus"]), &["abacus"]);
}

#[test]
fn events_go_to_standard_output_as_the_log_has_them() {
    let folder = tempfile::tempdir().unwrap();
    for supervised in [&["--log", "json"][..], &["--log", "json", "--no-supervise"]] {
        let output = train(folder.path(), supervised);
        assert_eq!((output.status.success(), text(&output.stderr).as_str()), (true, ""));
        let log = fs::read_to_string(folder.path().join("run/events.jsonl")).unwrap();
        assert_eq!(text(&output.stdout), log);
        assert_eq!(lines(&log).iter().filter(|it| it["event"] == "step_done").count(), N_STEPS);
    }
}

#[test]
fn every_phase_of_a_step_is_traced_and_together_they_are_the_step() {
    let folder = tempfile::tempdir().unwrap();
    let larger = ["--no-supervise", "--trace", "trace.jsonl", "--set", "sr.channels=32", "--set", "sr.blocks=4"];
    let steps = train(folder.path(), &[&larger[..], &["--set", "train.checkpoint_every=2"]].concat());
    assert!(steps.status.success(), "{}", text(&steps.stderr));
    let trace = fs::read_to_string(folder.path().join("trace.jsonl")).unwrap();
    let phases = lines(&trace);
    let seen: BTreeSet<&str> = phases.iter().map(|it| it["phase"].as_str().unwrap()).collect();
    for phase in ["step", "load", "attempt", "check", "optimizer", "validate", "checkpoint", "policy", "log"] {
        assert!(seen.contains(phase), "{phase} is not among {seen:?}");
    }
    let of = |phase: &str| phases.iter().filter(|it| it["phase"] == phase).cloned().collect::<Vec<_>>();
    assert_eq!(of("step").iter().map(|it| it["step"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    // What is rehearsed before the run belongs to no step.
    let attempts: Vec<Value> = of("attempt").into_iter().filter(|it| it["in"] == "step").collect();
    assert!(
        N_STEPS <= attempts.len() && attempts.iter().all(|it| it["shape"].as_str().unwrap().contains('×')),
        "{trace}"
    );
    let seconds = |of: &[Value]| of.iter().map(|it| it["seconds"].as_f64().unwrap()).sum::<f64>();
    let inside: Vec<Value> = phases.iter().filter(|it| it["in"] == "step").cloned().collect();
    let (parts, whole) = (seconds(&inside), seconds(&of("step")));
    assert!(0.9 * whole < parts && parts <= whole, "{parts} of {whole} s: {trace}");
    // Lines begin in order, but each is written when its phase ends: what is inside comes first.
    let mut last = BTreeMap::new();
    for it in &phases {
        assert!(it["process"].is_u64(), "{it}");
        let begun = it["begun_seconds"].as_f64().unwrap();
        let before = last.insert(it["phase"].as_str().unwrap(), begun);
        assert!(before <= Some(begun), "{trace}");
    }
}

#[test]
fn a_trace_is_appended_to_and_one_that_cannot_be_written_is_refused_before_anything_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let traced = ["--no-supervise", "--trace", "trace.jsonl"];
    let n_lines = || fs::read_to_string(folder.path().join("trace.jsonl")).unwrap().lines().count();
    assert!(train(folder.path(), &traced).status.success());
    let first = n_lines();
    assert!(train(folder.path(), &traced).status.success());
    assert!(first < n_lines());
    let elsewhere = tempfile::tempdir().unwrap();
    let output = train(elsewhere.path(), &["--no-supervise", "--trace", "missing/trace.jsonl"]);
    refused(&output, &["write the trace missing/trace.jsonl"]);
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[test]
fn the_head_of_a_log_says_what_the_edges_pad_and_the_report_holds_the_padding_against_it() {
    let folder = tempfile::tempdir().unwrap();
    for stream in ["data.stream=true", "data.stream=false"] {
        let output = train(folder.path(), &["--job", "sequence", "--set", stream]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let log = fs::read_to_string(folder.path().join("run/events.jsonl")).unwrap();
        let planned = lines(&log)[0]["planned_padding"].as_f64().unwrap();
        assert!((0.0..0.3).contains(&planned), "{stream}: {planned}");
        let report = common::json(&folder.path().join("run/training_report.json"));
        assert_eq!(report["planned_padding"].as_f64(), Some(planned));
        let mates = |key: &str| report["mates_kept"][key].as_f64();
        let is_share = |part: f64| (0.0..=1.0).contains(&part);
        // A stream has no epoch that is known before.
        let expected = (stream == "data.stream=false").then_some([true, true]);
        assert_eq!(
            mates("kept").zip(mates("reachable")).map(|(a, b)| [is_share(a), is_share(b)]),
            expected,
            "{report}"
        );
        assert!(planned <= report["work"]["padding"].as_f64().unwrap() + 0.05, "{report}");
    }
}

#[test]
fn a_run_that_goes_on_names_its_tasks_to_tensorboard() {
    let folder = tempfile::tempdir().unwrap();
    let tasks = ["--job", "multitask", "--set", "monitor.tensorboard=true"];
    assert!(train(folder.path(), &tasks).status.success());
    let mut again = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    again.args(["train", "--out", "run", "--resume", "--steps", "8"]).current_dir(folder.path());
    assert!(again.output().unwrap().status.success());
    let files = fs::read_dir(folder.path().join("run/tensorboard")).unwrap();
    let named = files.map(|it| text(&fs::read(it.unwrap().path()).unwrap()).contains("task_loss/"));
    assert_eq!(named.collect::<Vec<_>>(), [true, true]);
}
