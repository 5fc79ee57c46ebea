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
    for part in ["share of budget", "certificate", "memo", "epochs            3", "samples           768"] {
        assert!(shown.contains(part), "`{shown}` lacks `{part}`");
    }
    assert!(!shown.contains("unknown until"), "a step was timed: {shown}");
    for extension in ["json", "svg", "png"] {
        assert!(plan.with_extension(extension).is_file(), "{extension}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "nothing half-written is left");
    let written = json(&plan);
    let plan = &written["plans"][0];
    let cells = plan["cells"].as_array().unwrap();
    let budget = bytes(plan, "budget");
    assert!(cells.iter().any(|it| it["fit"] == "fits") && cells.iter().any(|it| it["fit"] == "over_budget"));
    for cell in cells {
        assert_eq!(cell["fit"] == "fits", bytes(cell, "upper") <= budget, "{cell}");
        assert!(bytes(cell, "reserved") <= bytes(cell, "upper"), "{cell}");
    }

    let out = folder.path().join("run");
    let set = format!("memory.plan={path}");
    let args = ["--set", &set, "--steps", "6", "--out", out.to_str().unwrap()];
    succeeded(&run("train", &args));
    assert_eq!(json(&out.join("memory_plan.json")), written);
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
    let cells = || plan["plans"][0]["cells"].as_array().unwrap().iter().filter(|it| it["phase"] == "train");
    let edge = cells().map(|it| bytes(it, "edge")).max().unwrap();
    let cell = cells().filter(|it| bytes(it, "edge") == edge && least <= bytes(it, "batch"));
    let cell = cell.min_by_key(|it| bytes(it, "batch")).unwrap();
    (bytes(cell, "batch"), bytes(cell, "upper"))
}

#[test]
fn the_finder_fills_what_a_plan_certifies_in_few_steps_of_which_none_runs_out_of_memory() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("found.json");
    // As much as is certain to hold so many samples on this machine, whatever its kernels take besides. With less room a search
    // may stay at four: what other kernels need from five on is then known only within a factor of three.
    for least in [16, 24] {
        let (batch, upper) = planned(folder.path(), least);
        let capacity = format!("memory.capacity={}B", upper * 10 / 9 + 1);
        let args = ["--set", &capacity, "--out", out.to_str().unwrap(), "--batch-reduction", "0"];
        let shown = succeeded(&run("find", &args));
        for part in ["memory per sample", "limited by", " 0 out of memory"] {
            assert!(shown.contains(part), "`{shown}` lacks `{part}`");
        }
        let found = json(&out);
        for it in found["answers"].as_array().unwrap() {
            assert!(bytes(it, "real_steps") <= 7, "{it}");
            assert!(bytes(it, "upper") <= bytes(it, "budget"), "{it}");
            assert!(bytes(it, "per_sample") > 0, "{it}");
        }
        assert!(bytes(&found["answers"][0], "batch") * 100 >= batch * 94, "{shown}");
    }
    refused(&run("find", &["--batch-reduction", "2"]), &["--batch-reduction", "2"]);
    refused(&run("find", &["--batch-max", "0"]), &["--batch-max", "0"]);
}

#[test]
fn a_search_tries_no_batch_that_needs_more_than_the_capacity_by_what_one_sample_needs() {
    // One row of 501 tokens takes nearly all of it, so that five do not come first.
    let tried = run("find", &["--job", "text", "--set", "memory.capacity=25MiB"]);
    let shown = String::from_utf8_lossy(&tried.stderr);
    let first = shown.lines().find(|it| it.starts_with("tried")).unwrap_or_default();
    assert!(first.contains("1 × 501"), "{shown}");
    assert!(!shown.contains("5 × 501"), "{shown}");
    // Nor where five would be no more than twice as much.
    let tried = run("find", &["--job", "text", "--set", "memory.capacity=40MiB"]);
    let shown = String::from_utf8_lossy(&tried.stderr);
    let peaks = shown.lines().filter_map(|it| it.strip_prefix("tried")?.split_once("peak ")?.1.split_once(" MiB"));
    let peaks: Vec<f64> = peaks.map(|(peak, _)| peak.parse().unwrap()).collect();
    assert!(!peaks.is_empty() && peaks.iter().all(|it| *it <= 40.0), "{shown}");
}

#[test]
fn the_fastest_batch_is_one_that_fits() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("found.json");
    let args = ["--objective", "throughput", "--batch-max", "16", "--out", out.to_str().unwrap()];
    succeeded(&run("find", &args));
    for found in json(&out)["answers"].as_array().unwrap() {
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

/// Two devices on one heap, of which the second holds half.
const TWO: [&str; 4] = ["--device", "flex, flex", "--set", "memory.capacity=12 MiB, 6 MiB"];

#[test]
fn several_devices_are_planned_each_under_its_own_capacity_and_together() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("plan.json");
    let shown = succeeded(&run("plan", &[&TWO[..], &["--out", out.to_str().unwrap()]].concat()));
    for part in [
        "device 0 (flex), budget 10.80 MiB",
        "device 1 (flex), budget 5.40 MiB",
        "together  tightest",
        "device 1, with 5.40 MiB",
    ] {
        assert!(shown.contains(part), "`{shown}` lacks `{part}`");
    }
    let plan = json(&out);
    let plans = plan["plans"].as_array().unwrap();
    assert_eq!(plans.iter().map(|it| bytes(it, "capacity")).collect::<Vec<_>>(), [12 << 20, 6 << 20]);
    let largest = |plan: &Value, edge: u64| {
        let cells = plan["cells"].as_array().unwrap().iter();
        let fits = cells.filter(|it| it["phase"] == "train" && it["fit"] == "fits" && bytes(it, "edge") == edge);
        fits.map(|it| bytes(it, "batch")).max().unwrap_or(0)
    };
    for it in plan["together"].as_array().unwrap() {
        let edge = bytes(it, "edge");
        let batches: Vec<u64> = it["batches"].as_array().unwrap().iter().map(|it| it.as_u64().unwrap()).collect();
        assert_eq!(batches, plans.iter().map(|it| largest(it, edge)).collect::<Vec<_>>(), "{it}");
        assert_eq!((bytes(it, "samples"), bytes(it, "tightest")), (batches.iter().sum(), 1), "{it}");
        assert!(batches[1] <= batches[0], "{it}");
    }
    // A device of its own has its own plan in it.
    let set = format!("memory.plan={}", out.display());
    let args = ["--set", &set, "--steps", "2", "--out", folder.path().join("run").to_str().unwrap()].map(str::to_owned);
    succeeded(&run("train", &args.each_ref().map(String::as_str)));
    refused(&run("plan", &[&TWO[..], &["--time"]].concat()), &["--time", "`device` names 2", "--device"]);
}

#[test]
fn the_finder_searches_on_each_device_and_adds() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("found.json");
    let shown = succeeded(&run("find", &[&TWO[..], &["--out", out.to_str().unwrap(), "--edge", "16"]].concat()));
    let found = json(&out);
    let (answers, together) = (found["answers"].as_array().unwrap(), found["together"].as_array().unwrap());
    assert_eq!((answers.len(), together.len()), (4, 2), "{found}");
    for (two, it) in answers.chunks(2).zip(together) {
        assert_eq!([&two[0]["device"], &two[1]["device"]], ["flex"; 2]);
        let batches = [0, 1].map(|at| bytes(&two[at], "batch"));
        assert!(
            two.iter().all(|it| bytes(it, "upper") <= bytes(it, "budget") && bytes(it, "out_of_memory") == 0),
            "{found}"
        );
        assert_eq!((bytes(it, "samples"), bytes(it, "tightest")), (batches[0] + batches[1], 1), "{it}");
    }
    for part in ["device 0 (flex), budget 10.80 MiB", "tightest             device 1 (flex)"] {
        assert!(shown.contains(part), "`{shown}` lacks `{part}`");
    }
}

#[test]
fn the_devices_of_a_run_are_marked_among_all() {
    let probe = |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_plimsoll")).arg("probe").args(args).output().unwrap();
    let shown = succeeded(&probe(&["--device", "flex,flex", "--capacity", "20MiB, 48MiB"]));
    for part in
        ["<- devices 0, 1", "device 1 (flex): 48.00 MiB to respect", "68.00 MiB together; the tightest is device 0"]
    {
        assert!(shown.contains(part), "`{shown}` lacks `{part}`");
    }
    assert!(!succeeded(&probe(&[])).contains("device 0"));
    let missing = succeeded(&probe(&["--device", "vulkan:99"]));
    assert!(missing.contains("device 0 (vulkan:99): failed to open vulkan:99: "), "{missing}");
    refused(&probe(&["--device", "flex", "--capacity", "1GiB, 2GiB"]), &["2 sizes", "one device"]);
}
