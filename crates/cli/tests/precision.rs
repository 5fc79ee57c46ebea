//! Runs that compute in 16 bits.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::process::Command;

use serde_json::Value;

use common::{SMALL, text};

/// Each step of a short run in some precision, as the log has it; also whether any bound was passed.
fn steps(job: &str, precision: &str) -> (Vec<Value>, bool) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(["train", "--job", job, "--steps", "8", "--seed", "1", "--no-supervise", "--out"]);
    command.arg(folder.path().join("run")).args(["--set", &format!("train.precision={precision}")]);
    command.args(SMALL.iter().flat_map(|set| ["--set", set]));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{job} in {precision}: {}", text(&output.stderr));
    let log = fs::read_to_string(folder.path().join("run/events.jsonl")).unwrap();
    let events: Vec<Value> = log.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let exceeded = events.iter().any(|it| it["event"] == "bound_exceeded");
    (events.into_iter().filter(|it| it["event"] == "step_done").collect(), exceeded)
}

#[test]
fn every_job_learns_in_16_bits_what_it_learns_in_32_and_nearly_as_well() {
    for job in ["sr", "text", "sequence", "multitask"] {
        let [(whole, _), (half, exceeded)] = ["f32", "bf16"].map(|precision| steps(job, precision));
        let losses = |steps: &[Value]| steps.iter().map(|it| it["loss"].as_f64().unwrap()).collect::<Vec<_>>();
        let [whole, half] = [losses(&whole), losses(&half)];
        assert_eq!(whole.len(), half.len());
        assert_ne!(whole, half, "{job} computed in 32 bits");
        // The first step has the same weights, to the eight bits that are left of them.
        assert!((whole[0] - half[0]).abs() < 0.02 * whole[0].abs(), "{job}: {whole:?} {half:?}");
        let [whole, half] = [whole, half].map(|it| it[4..].iter().sum::<f64>());
        assert!((whole - half).abs() < 0.1 * whole, "{job}: {whole} {half}");
        assert!(!exceeded, "{job} passed a bound");
    }
}
