//! One run of each policy, one that is hindered, and one that hardly fits.
//!
//! Each policy's shows it rise, fail and fall: `recorded` sees to that.

use serde_json::json;

use crate::jobs::SEQUENCE;
use crate::run::{Run, SR};

/// The capacity falls and comes back, then a failure ends all growth.
#[test]
fn certified() {
    let sets = [&SR[..], &["policy.reopen_after_steps=8", "policy.max_reversals=1"]].concat();
    let faults = json!([
        { "id": 0, "at": 30, "kind": "capacity_falls", "share": 0.7, "steps": 6 },
        { "id": 1, "at": 108, "kind": "oom" },
    ]);
    Run::new("certified", "sr", "512MiB", 60, &sets).alone().under(&faults).check();
}

/// What failed comes back up.
#[test]
fn bucketed() {
    let sets = ["data.stream=false", "batch.effective_batch_size=24", "policy.reopen_after_steps=8"];
    let faults = json!([{ "id": 0, "at": 90, "kind": "oom" }]);
    Run::new("bucketed", "sequence", "384MiB", 40, &[&SEQUENCE[..], &sets].concat()).alone().under(&faults).check();
}

/// The policy makes all changes that it may.
#[test]
fn stepwise() {
    let sets = ["policy.kind=stepwise", "policy.adjustment_frequency=4", "policy.max_adjustments=4"];
    let faults = json!([{ "id": 0, "at": 100, "kind": "oom" }]);
    Run::new("stepwise", "sr", "384MiB", 32, &[&SR[..], &sets].concat()).alone().under(&faults).check();
}

/// The micro-batch that is asked for does not fit, and once not even what fits.
#[test]
fn fixed() {
    let sets = [&SR[..], &["policy.kind=fixed"]].concat();
    let faults = json!([{ "id": 0, "at": 14, "kind": "oom" }]);
    Run::new("fixed", "sr", "256MiB", 8, &sets).alone().under(&faults).check();
}

/// What is long does not fit, not even with gradient checkpointing, and is left out.
#[test]
fn a_capacity_that_is_tight() {
    let sets = [&SEQUENCE[..], &["data.stream=false", "data.bad_sample=skip"]].concat();
    Run::new("tight", "sequence", "140MiB", 12, &sets).alone().check();
}

#[test]
fn failures_and_a_kill() {
    let sets = [&SR[..], &["train.checkpoint_every=2", "data.bad_sample=skip", "policy.reopen_after_steps=8"]].concat();
    // Reads run ahead of steps, so that those that fail come before anything that a reader's lead could change.
    // The last one comes after the kill, which undoes what the log says of the steps since the last checkpoint.
    let faults = json!([
        { "id": 0, "at": 20, "kind": "read_error" },
        { "id": 1, "at": 30, "kind": "unreadable" },
        { "id": 2, "at": 12, "kind": "oom" },
        { "id": 3, "at": 40, "kind": "oom_optimizer" },
        { "id": 4, "at": 90, "kind": "kill" },
        { "id": 5, "at": 66, "kind": "oom" },
        { "id": 6, "at": 55, "kind": "excess", "bytes": 8 << 20, "phase": "train" },
        { "id": 7, "at": 95, "kind": "excess", "bytes": 4 << 20, "phase": "infer" },
    ]);
    Run::new("failures", "sr", "512MiB", 24, &sets).under(&faults).check();
}
