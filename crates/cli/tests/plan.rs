//! Plans and searches as a user runs them, on this CPU.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

use common::{json, refused, text};

/// A small model under a small capacity.
const SMALL: [&str; 6] = ["--set", "sr.channels=8", "--set", "sr.blocks=1", "--set", "memory.capacity=12MiB"];

fn run(command: &str, args: &[&str]) -> Output {
    let mut plimsoll = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    plimsoll.arg(command).args(SMALL).args(args).output().unwrap()
}

#[track_caller]
fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn bytes(cell: &Value, key: &str) -> u64 {
    cell[key].as_u64().unwrap()
}

#[test]
fn a_plan_says_of_every_cell_what_it_needs_and_a_run_begins_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("memory_plan.json");
    let path = plan.to_str().unwrap();
    let shown = succeeded(&run("plan", &["--out", path, "--epochs", "3", "--time"]));
    for part in ["share of budget", "certificate", "memo", "epochs            3", "samples           1024"] {
        assert!(shown.contains(part), "`{shown}` lacks `{part}`");
    }
    assert!(!shown.contains("unknown until"), "a step was timed: {shown}");
    for extension in ["json", "svg", "png"] {
        assert!(plan.with_extension(extension).is_file(), "{extension}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "nothing half-written is left");
    let plan = json(&plan);
    let cells = plan["cells"].as_array().unwrap();
    let budget = bytes(&plan, "budget");
    assert!(cells.iter().any(|it| it["fit"] == "fits") && cells.iter().any(|it| it["fit"] == "over_budget"));
    for cell in cells {
        assert_eq!(cell["fit"] == "fits", bytes(cell, "upper") <= budget, "{cell}");
        assert!(bytes(cell, "reserved") <= bytes(cell, "upper"), "{cell}");
    }

    let out = folder.path().join("run");
    let set = format!("memory.plan={path}");
    let args = ["--set", &set, "--steps", "6", "--out", out.to_str().unwrap()];
    succeeded(&run("train", &args));
    assert_eq!(json(&out.join("memory_plan.json")), plan);
    let log = fs::read_to_string(out.join("events.jsonl")).unwrap();
    let steps: Vec<Value> = log.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let done: Vec<_> = steps.iter().filter(|it| it["event"] == "step_done").collect();
    assert_eq!(done.len(), 6);
    assert!(bytes(done[0], "upper") > 0, "the plan knows the first step");
    for step in &done[1..] {
        assert!(bytes(step, "peak") <= bytes(step, "upper"), "{step}");
    }
    let moved = steps.iter().filter(|it| it["event"] == "decided" && it["decision"]["kind"] == "move").count();
    assert_eq!(moved, 1, "one jump to the highest rung that fits");

    // Other settings make it another program.
    refused(
        &run("train", &["--set", &set, "--set", "sr.channels=16"]),
        &["8 channels", "16 channels", "plimsoll plan"],
    );
    refused(&run("train", &["--set", &set, "--set", "batch.effective_batch_size=16"]), &["effective batch size"]);
    refused(&run("train", &["--set", "memory.plan=nowhere.json"]), &["nowhere.json"]);
}

#[test]
fn a_capacity_that_holds_no_step_is_refused_with_what_would_help() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("plan.json");
    let args = ["--set", "memory.capacity=2MiB", "--set", "batch.patch_min=32", "--out", out.to_str().unwrap()];
    refused(&run("plan", &args), &["needs", "budget", "2.00 MiB"]);
    assert!(!out.exists());
}

#[test]
fn the_finder_tries_few_steps_and_none_runs_out_of_memory() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("found.json");
    let shown = succeeded(&run("find", &["--out", out.to_str().unwrap(), "--batch-reduction", "0"]));
    assert!(shown.contains("memory per sample") && shown.contains("0 out of memory"), "{shown}");
    for found in json(&out).as_array().unwrap() {
        assert!(bytes(found, "real_steps") <= 4, "{found}");
        assert!(bytes(found, "peak") <= bytes(found, "budget"), "{found}");
        assert!(bytes(found, "upper") <= bytes(found, "budget"), "{found}");
        assert!(bytes(found, "batch") > 4, "{found}");
    }
    refused(&run("find", &["--batch-reduction", "2"]), &["--batch-reduction", "2"]);
    refused(&run("find", &["--batch-max", "0"]), &["batch_max", "0"]);
}

#[test]
fn the_fastest_batch_is_one_that_fits() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("found.json");
    let args = ["--objective", "throughput", "--batch-max", "16", "--out", out.to_str().unwrap()];
    succeeded(&run("find", &args));
    for found in json(&out).as_array().unwrap() {
        assert!(found["samples_per_second"].as_f64() > Some(0.0), "{found}");
        assert!(bytes(found, "batch") <= bytes(found, "largest"), "{found}");
    }
}

#[test]
fn an_automatic_batch_size_is_found_once_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let args = ["--set", "batch.batch_size=auto", "--steps", "2", "--out", out.to_str().unwrap()];
    succeeded(&run("train", &args));
    let config = fs::read_to_string(out.join("config.toml")).unwrap();
    let line = config.lines().find(|it| it.starts_with("batch_size = ")).unwrap();
    let batch: u64 = line["batch_size = ".len()..].parse().unwrap();
    let log = fs::read_to_string(out.join("events.jsonl")).unwrap();
    let steps = log.lines().map(|it| serde_json::from_str::<Value>(it).unwrap());
    let rungs: Vec<_> =
        steps.filter(|it| it["event"] == "step_done").map(|it| bytes(&it["rung"], "micro_batch_size")).collect();
    assert_eq!(rungs, [batch, batch]);
    refused(&run("train", &["--set", "batch.batch_size=some"]), &["batch.batch_size", "some", "adaptive"]);
    refused(&run("train", &["--set", "batch.batch_size=99"]), &["batch.batch_size", "99", "effective_batch_size"]);
}
