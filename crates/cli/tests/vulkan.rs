//! Runs on a Vulkan device, where one is installed; a software driver will do.

#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test may panic, and says what it skips")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use common::text;
use serde_json::Value;

/// Trains a small model for three steps on these devices, and returns all that it said, or says why the test is skipped.
fn train(devices: &str, out: &Path, sets: &[&str]) -> Option<String> {
    let plimsoll = || Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    let shown = text(&plimsoll().arg("probe").output().unwrap().stdout);
    if !shown.lines().any(|it| it.starts_with("vulkan:0: ") && it.contains("capacity")) {
        eprintln!("skipped: this machine, or this build, has no Vulkan device");
        return None;
    }
    let small = ["sr.channels=4", "sr.blocks=1", "memory.capacity=512MiB"];
    let sets = small.iter().chain(sets).flat_map(|it| ["--set", it]);
    let args = ["train", "--no-supervise", "--steps", "3", "--device", devices, "--out"];
    let output = plimsoll().args(args).arg(out).args(sets).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(text(&output.stderr) + &text(&output.stdout))
}

/// Returns the steps of a log, in order.
fn steps(log: &Path) -> Vec<Value> {
    let log = fs::read_to_string(log).unwrap();
    let events = log.lines().map(|it| serde_json::from_str::<Value>(it).unwrap());
    events.filter(|it| it["event"] == "step_done").collect()
}

#[test]
fn a_planned_step_is_below_its_bound_after_a_validation_whose_results_are_as_large_as_it() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    if train("vulkan", &run, &[]).is_none() {
        return;
    }
    let log = fs::read_to_string(run.join("events.jsonl")).unwrap();
    assert!(!log.contains("bound_exceeded"), "{log}");
}

#[test]
fn replicas_on_one_device_share_what_it_has_and_come_to_the_losses_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let [alone, together] = ["alone", "together"].map(|it| folder.path().join(it));
    let sets = ["memory.plan=off", "batch.patch_min=32", "sr.validation_tile=16"];
    let Some(_) = train("vulkan", &alone, &sets) else { return };
    let said = train("vulkan,vulkan", &together, &sets).unwrap();
    assert!(said.contains("0, 1 are one, vulkan:0, and share what it has"), "{said}");
    let ids = |steps: &[&Value]| -> BTreeSet<u64> {
        let parts = steps.iter().flat_map(|it| it["micro_batches"].as_array().unwrap());
        parts.flat_map(|it| it["ids"].as_array().unwrap()).map(|it| it.as_u64().unwrap()).collect()
    };
    let (whole, of_second) = (steps(&alone.join("events.jsonl")), steps(&together.join("ranks/1/events.jsonl")));
    let of_first = steps(&together.join("events.jsonl"));
    assert_eq!((whole.len(), of_first.len(), of_second.len()), (3, 3, 3), "{said}");
    for ((whole, first), second) in whole.iter().zip(&of_first).zip(&of_second) {
        let shares = [[first], [second]].map(|it| ids(&it));
        assert!(shares.iter().all(|it| !it.is_empty()) && shares[0].is_disjoint(&shares[1]), "{shares:?}");
        assert_eq!(ids(&[first, second]), ids(&[whole]));
        let [expected, loss] = [whole, first].map(|it| it["loss"].as_f64().unwrap());
        assert!((loss - expected).abs() < 1e-5 * expected, "{loss} in place of {expected}");
        for it in [first, second] {
            assert!(it["peak"].as_u64().unwrap() <= it["budget"].as_u64().unwrap(), "{it}");
        }
    }
}
