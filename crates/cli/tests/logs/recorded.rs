//! Whether a recorded log shows what its policy is for.

use std::cmp::Ordering;

use serde_json::Value;

/// Asserts that a step failed, and that the policy rose and fell where it moves at all: a log in which nothing happens
/// replays whatever a policy does when something does.
#[track_caller]
pub(crate) fn check(policy: &str, log: &str) {
    let events: Vec<Value> = log.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert!(events.iter().any(|it| it["event"] == "step_failed"), "{policy}: no step failed");
    let turns: Vec<_> = events.iter().filter_map(turn).collect();
    let is_mixed = turns.contains(&Ordering::Less) && turns.contains(&Ordering::Greater);
    assert!(is_mixed || policy == "fixed", "{policy}: what was before each change is to what came {turns:?}");
}

/// Returns how what was before a change compares with what came.
fn turn(event: &Value) -> Option<Ordering> {
    let of = |value: &Value| match value {
        Value::Array(sizes) => sizes.iter().filter_map(Value::as_u64).sum(),
        knobs => knobs["patch_size"].as_u64().unwrap_or(0).pow(2) * knobs["micro_batch_size"].as_u64().unwrap_or(0),
    };
    let from = event["decision"].get("from")?;
    Some(of(from).cmp(&of(&event["decision"]["to"])))
}

#[test]
#[should_panic(expected = "bucketed: what was before each change is to what came [Less]")]
fn a_log_that_only_rises_is_not_enough() {
    let resize = r#"{"event":"decided","decision":{"kind":"resize","from":[1,1],"to":[2,1]}}"#;
    check("bucketed", &format!("{}\n{resize}\n", r#"{"event":"step_failed"}"#));
}
