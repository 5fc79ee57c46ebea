//! What a report says of the processes that died.

use std::fs;

use serde_json::Value;

use super::common::json;
use super::{Run, end, last_checkpoint, signal, wait, worker};

/// Waits until the log has so many steps, and ends this process at once.
#[track_caller]
fn kill_after(run: &Run, n_steps: usize, pid: impl Fn() -> u32) {
    let log = || fs::read_to_string(run.out().join("events.jsonl")).unwrap_or_default();
    wait("steps", || n_steps <= log().matches(r#""event":"step_done""#).count());
    signal("KILL", pid());
}

#[test]
fn every_process_that_died_is_counted_and_every_step_that_was_done_again() {
    let run = Run::new();
    let long = ["--steps", "100000", "--set", "train.checkpoint_every=20"];
    // The supervisor starts no other one, and then there is none.
    let child = run.start(&[&long[..], &["--set", "train.max_restarts=0"]].concat());
    kill_after(&run, 25, || worker(&run.out(), child.id()));
    assert_eq!(end(child).0, Some(1));
    let child = run.start(&[&long[..], &["--resume", "--no-supervise"]].concat());
    kill_after(&run, 65, || child.id());
    end(child);
    let n_steps = (last_checkpoint(&run.out()).unwrap() + 10).to_string();
    let (code, stderr) = end(run.start(&["--resume", "--steps", &n_steps]));
    assert_eq!(code, Some(0), "{stderr}");
    let report = json(&run.out().join("training_report.json"));
    let restarts = report["restarts"].as_array().unwrap();
    assert_eq!(restarts.len(), 2, "{report}");
    let undone = fs::read_to_string(run.out().join("undone.jsonl")).unwrap();
    // A line that the kill has cut short is no step.
    let undone = undone.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let undone = undone.filter(|it| it["event"] == "step_done").count() as u64;
    let of_each: u64 = restarts.iter().filter_map(|it| it["undone_steps"].as_u64()).sum();
    assert_eq!((report["undone_steps"].as_u64().unwrap_or(0), of_each), (undone, undone), "{report}");
}
