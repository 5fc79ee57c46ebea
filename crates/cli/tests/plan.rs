//! Plans and searches as a user runs them, on this CPU.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use common::{json, refused, text};

/// A small model under a small capacity.
const SMALL: [&str; 6] = ["--set", "sr.channels=8", "--set", "sr.blocks=1", "--set", "memory.capacity=12MiB"];

/// On one thread, whatever the processor has: what each keeps for itself would be most of capacities as small as these.
fn run(command: &str, args: &[&str]) -> Output {
    let mut plimsoll = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    plimsoll.env("RAYON_NUM_THREADS", "1").arg(command).args(SMALL).args(args).output().unwrap()
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
    refused(&run("train", &["--set", "memory.plan=nowhere.json"]), &["`memory.plan`", "nowhere.json"]);
}

#[test]
fn a_capacity_that_holds_no_step_is_refused_with_what_would_help() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("plan.json");
    let args = ["--set", "memory.capacity=2MiB", "--set", "batch.patch_min=32", "--out", out.to_str().unwrap()];
    refused(&run("plan", &args), &["needs", "budget", "2.00 MiB"]);
    assert!(!out.exists());
}

/// Returns a planned batch of at least so many samples of the largest edge, and the upper bound of its training step.
fn planned(folder: &Path, least: u64) -> (u64, u64) {
    let plan = folder.join("memory_plan.json");
    let args = ["--set", "memory.capacity=1GiB", "--out", plan.to_str().unwrap()];
    succeeded(&run("plan", &args));
    let plan = json(&plan);
    let cells = || plan["cells"].as_array().unwrap().iter().filter(|it| it["phase"] == "train");
    let edge = cells().map(|it| bytes(it, "edge")).max().unwrap();
    let cell = cells().filter(|it| bytes(it, "edge") == edge && least <= bytes(it, "batch"));
    let cell = cell.min_by_key(|it| bytes(it, "batch")).unwrap();
    (bytes(cell, "batch"), bytes(cell, "upper"))
}

#[test]
fn the_finder_fills_what_a_plan_certifies_in_few_steps_of_which_none_runs_out_of_memory() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("found.json");
    // As much as is certain to hold so many samples on this machine, whatever its kernels take besides.
    for least in [6, 16] {
        let (batch, upper) = planned(folder.path(), least);
        let capacity = format!("memory.capacity={}B", upper * 10 / 9 + 1);
        let args = ["--set", &capacity, "--out", out.to_str().unwrap(), "--batch-reduction", "0"];
        let shown = succeeded(&run("find", &args));
        for part in ["memory per sample", "limited by", " 0 out of memory"] {
            assert!(shown.contains(part), "`{shown}` lacks `{part}`");
        }
        let found = json(&out);
        for it in found.as_array().unwrap() {
            assert!(bytes(it, "real_steps") <= 7, "{it}");
            assert!(bytes(it, "upper") <= bytes(it, "budget"), "{it}");
            assert!(bytes(it, "per_sample") > 0, "{it}");
        }
        assert!(bytes(&found[0], "batch") * 100 >= batch * 94, "{shown}");
    }
    refused(&run("find", &["--batch-reduction", "2"]), &["--batch-reduction", "2"]);
    refused(&run("find", &["--batch-max", "0"]), &["--batch-max", "0"]);
}

#[test]
fn a_search_tries_no_batch_that_needs_more_than_the_capacity_by_what_one_sample_needs() {
    // One text of 504 tokens takes nearly all of it, so that five do not come first.
    let tried = run("find", &["--job", "text", "--set", "memory.capacity=54MiB"]);
    let shown = String::from_utf8_lossy(&tried.stderr);
    let first = shown.lines().find(|it| it.starts_with("tried")).unwrap_or_default();
    assert!(first.contains("1 × 504"), "{shown}");
    assert!(!shown.contains("5 × 504"), "{shown}");
    // Nor where five would be no more than twice as much.
    let tried = run("find", &["--job", "text", "--set", "memory.capacity=120MiB"]);
    let shown = String::from_utf8_lossy(&tried.stderr);
    let peaks = shown.lines().filter_map(|it| it.strip_prefix("tried")?.split_once("peak ")?.1.split_once(" MiB"));
    let peaks: Vec<f64> = peaks.map(|(peak, _)| peak.parse().unwrap()).collect();
    assert!(!peaks.is_empty() && peaks.iter().all(|it| *it <= 120.0), "{shown}");
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
    // Kernels pack matrices into buffers as large as the processor's caches, which may leave too little of 12 MiB.
    let roomy = ["--set", "memory.capacity=32MiB", "--set", "batch.batch_size=auto"];
    let args = [&roomy[..], &["--steps", "2", "--out", out.to_str().unwrap()]].concat();
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
