//! Signals in few words, and the table that is checked against them.

use plimsoll_policy::{Policy, PolicyConfig, Predict, Signal, StepMeasured, StepRefused};
use plimsoll_types::{Budget, Bytes, Decision, Knobs, Prediction, StepShape};

/// A step that was committed with the policy's knobs.
pub(crate) fn done(step: u64, knobs: Knobs, peak: u64, budget: Budget) -> Signal {
    Signal::Done(measured(step, knobs, peak, budget))
}

pub(crate) fn measured(step: u64, knobs: Knobs, peak: u64, budget: Budget) -> StepMeasured {
    StepMeasured { step, knobs, is_divided: false, highest: None, peak: Bytes(peak), budget }
}

/// A micro-batch that ran out of memory, and runs again in parts.
pub(crate) fn failed(step: u64, knobs: Knobs) -> Signal {
    refused(step, knobs, knobs.shape())
}

pub(crate) fn refused(step: u64, knobs: Knobs, shape: StepShape) -> Signal {
    Signal::OutOfMemory(StepRefused { step, knobs, shape, in_parts: true })
}

/// A failure that left nothing to run again.
pub(crate) fn broken_off(step: u64, knobs: Knobs, shape: StepShape) -> Signal {
    Signal::OutOfMemory(StepRefused { step, knobs, shape, in_parts: false })
}

pub(crate) fn budget_changed(step: u64, budget: Budget) -> Signal {
    Signal::BudgetChanged { step, budget }
}

/// A budget that is all of the capacity.
pub(crate) fn whole(bytes: u64) -> Budget {
    Budget { capacity: Bytes(bytes), budget: Bytes(bytes) }
}

pub(crate) fn knobs(patch_size: u32, micro_batch_size: u32) -> Knobs {
    Knobs { patch_size, micro_batch_size }
}

pub(crate) fn policy(config: PolicyConfig) -> Policy {
    Policy::try_new(config).expect("the test's configuration is valid")
}

pub(crate) fn unknown(_shape: StepShape) -> Option<Prediction> {
    None
}

/// What happens next, as the shell sees it: the step number and the knobs come from the run itself.
#[derive(Clone, Copy)]
pub(crate) enum Then {
    /// A step with this peak.
    Peak(u64),
    /// As many steps with this peak, of which only the last may change anything.
    Peaks(u64, u64),
    /// The next step runs out of memory, and is committed in halves with this peak: at most one of both changes anything.
    OutOfMemory(u64),
    /// From now on there is this much.
    Budget(u64),
}

/// Replays a table of what happens and what is last decided, from the given memory on.
#[track_caller]
pub(crate) fn check(policy: &mut Policy, memory: u64, predict: Predict<'_>, table: &[(Then, &str)]) {
    let (mut step, mut budget) = (0, whole(memory));
    for (row, (then, expected)) in table.iter().enumerate() {
        let decided = match *then {
            Then::Budget(bytes) => {
                budget = whole(bytes);
                play(policy, &budget_changed(step, budget), predict)
            }
            Then::OutOfMemory(peak) => {
                let rung = policy.knobs();
                let first = play(policy, &failed(step, rung), predict);
                let last = play(policy, &done(step, rung, peak, budget), predict);
                step += 1;
                let is_kept = |decided: &str| decided.starts_with("keep");
                let answers_at_once = matches!(policy, Policy::Stepwise(_));
                assert!(is_kept(if answers_at_once { &last } else { &first }), "row {row}: {first}, and {last}");
                if is_kept(&last) { first } else { last }
            }
            Then::Peak(peak) => steps(policy, &mut step, 1, peak, budget, predict),
            Then::Peaks(n, peak) => steps(policy, &mut step, n, peak, budget, predict),
        };
        assert_eq!(decided, *expected, "row {row}, after {step} steps");
    }
}

#[track_caller]
fn steps(policy: &mut Policy, step: &mut u64, n: u64, peak: u64, budget: Budget, predict: Predict<'_>) -> String {
    let mut last = String::new();
    for _ in 0..n {
        assert!(last.is_empty() || last.starts_with("keep"), "at step {step} the table leaves out: {last}");
        last = play(policy, &done(*step, policy.knobs(), peak, budget), predict);
        *step += 1;
    }
    last
}

fn play(policy: &mut Policy, signal: &Signal, predict: Predict<'_>) -> String {
    shown(&policy.on_signal(signal, predict).expect("a decision"))
}

pub(crate) fn shown(decision: &Decision) -> String {
    match decision {
        Decision::Keep { reason } => format!("keep: {reason}"),
        Decision::Move(change) => format!("{}: {}", change.to, change.reason),
        Decision::Resize(resize) => format!("{:?}: {}", resize.to, resize.reason),
        Decision::Brake { reason } => format!("brake: {reason}"),
    }
}

/// Feeds what a damaged log may hold: steps with the last number that there is.
#[track_caller]
pub(crate) fn check_last_step(mut policy: Policy) {
    let (rung, budget) = (policy.knobs(), whole(100));
    let signals = [
        done(u64::MAX, rung, 200, budget),
        failed(u64::MAX, rung),
        budget_changed(u64::MAX, budget),
        done(0, rung, 1, budget),
    ];
    assert!(signals.iter().all(|it| policy.on_signal(it, &unknown).is_some()));
}
