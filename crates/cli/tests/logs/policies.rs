//! One run of each policy, and one that is hindered.

use serde_json::json;

use crate::run::{Run, SR};

#[test]
fn certified() {
    let sets = [&SR[..], &["policy.reopen_after_steps=8"]].concat();
    let faults = json!([{ "id": 0, "at": 30, "kind": "capacity_falls", "share": 0.7, "steps": 6 }]);
    Run::new("certified", "sr", "512MiB", 32, &sets).alone().under(&faults).check();
}

#[test]
fn bucketed() {
    let sets = ["sequence.heads=1", "sequence.head_width=8", "sequence.blocks=1", "sequence.stream=false"];
    let sets = [&sets[..], &["batch.effective_batch_size=24"]].concat();
    let faults = json!([{ "id": 0, "at": 14, "kind": "oom" }]);
    Run::new("bucketed", "sequence", "256MiB", 24, &sets).alone().under(&faults).check();
}

#[test]
fn stepwise() {
    let sets = [&SR[..], &["policy.kind=stepwise", "policy.adjustment_frequency=4"]].concat();
    Run::new("stepwise", "sr", "384MiB", 32, &sets).alone().check();
}

/// The micro-batch that is asked for does not fit.
#[test]
fn fixed() {
    let sets = [&SR[..], &["policy.kind=fixed"]].concat();
    Run::new("fixed", "sr", "256MiB", 8, &sets).alone().check();
}

#[test]
fn failures_and_a_kill() {
    let sets = [&SR[..], &["train.checkpoint_every=2", "data.bad_sample=skip", "policy.reopen_after_steps=8"]].concat();
    // Reads run ahead of steps, so that those that fail come before anything that a reader's lead could change.
    let faults = json!([
        { "id": 0, "at": 20, "kind": "read_error" },
        { "id": 1, "at": 30, "kind": "unreadable" },
        { "id": 2, "at": 12, "kind": "oom" },
        { "id": 3, "at": 40, "kind": "oom_optimizer" },
        { "id": 4, "at": 90, "kind": "kill" },
        { "id": 5, "at": 66, "kind": "oom" },
    ]);
    Run::new("failures", "sr", "512MiB", 24, &sets).under(&faults).check();
}
