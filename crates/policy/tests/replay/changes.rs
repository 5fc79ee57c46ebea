//! How often sizes change where something in the process takes memory for a moment, again and again.

use std::cell::Cell;

use plimsoll_policy::{Bounds, BucketedConfig, CertifiedConfig, Policy, PolicyConfig, Signal, StepMeasured};
use plimsoll_types::{Budget, Bytes, Decision, Prediction, Recompute, StepShape};

use crate::scene::{self, knobs, policy};

const EDGES: [u32; 3] = [10, 20, 40];

const MEMORY: Budget = Budget { capacity: Bytes(1100), budget: Bytes(1000) };

/// Steps until the bounds have forgotten a burst.
const FORGOTTEN: u64 = 97;

/// Steps between two bursts: a run is to be back after 200, and what came back is to have proven itself.
const EVERY: u64 = 215;

/// What one burst after another takes: the second passes the budget and not the capacity.
const BURSTS: [u64; 3] = [400, 60, 250];

/// Runs for so many steps and returns after which sizes changed.
///
/// What passes the capacity fails, each part for itself, and runs again in parts; the bounds remember a burst for a while.
#[track_caller]
fn simulate(policy: &mut Policy, need: &dyn Fn(StepShape) -> u64, n_steps: u64) -> Vec<u64> {
    let (mut changes, known, mut undisturbed) = (vec![], Cell::new(0), None);
    let predict = |shape| {
        let upper = Bytes(need(shape) + known.get());
        Some(Prediction { expected: upper, upper })
    };
    for step in 0..n_steps {
        let sizes = policy.batch_sizes().map(<[u32]>::to_vec);
        let (phase, bursts) = (step % EVERY, step / EVERY);
        let burst = match BURSTS[(bursts % 3) as usize] {
            burst if 0 < bursts && phase == 0 => {
                let stands = undisturbed.get_or_insert((policy.knobs(), sizes.clone()));
                assert_eq!((policy.knobs(), &sizes), (stands.0, &stands.1), "not back at step {step}");
                burst
            }
            _ => 0,
        };
        let rung = policy.knobs();
        let shapes: Vec<_> = sizes.map_or(vec![rung.shape()], |sizes| {
            sizes.iter().zip(EDGES).map(|(size, edge)| StepShape::new(*size, edge)).collect()
        });
        let peaks = shapes.iter().map(|shape| (need(*shape) + burst, *shape));
        let (failed, ran): (Vec<_>, Vec<_>) = peaks.partition(|(peak, _)| MEMORY.capacity.0 < *peak);
        known.set(if 0 < burst {
            burst
        } else if phase < FORGOTTEN {
            known.get()
        } else {
            0
        });
        let highest = ran.into_iter().max();
        let peak = highest.map_or(MEMORY.budget.0, |(peak, _)| peak);
        let highest = highest.map(|(_, shape)| shape);
        let done = Signal::Done(StepMeasured { highest, ..scene::measured(step, rung, peak, MEMORY) });
        let failed = failed.into_iter().map(|(_, shape)| scene::refused(step, rung, shape));
        for signal in failed.chain([done]) {
            let decision = policy.on_signal(&signal, &predict);
            changes.extend(matches!(decision, Some(Decision::Move(_) | Decision::Resize(_))).then_some(step));
        }
    }
    changes
}

/// Returns how many changes the worst thousand steps have, wherever they begin.
fn most_in_a_thousand(changes: &[u64]) -> usize {
    let since = |first: &u64| changes.iter().filter(|at| (*first..first + 1000).contains(at)).count();
    changes.iter().map(since).max().unwrap_or_default()
}

#[test]
fn bursts_change_the_rung_at_most_ten_times_in_a_thousand_steps() {
    let bounds = Bounds { patch_min: 16, patch_max: 32, patch_multiple: 8, batch_min: 2, batch_max: 256 };
    let mut policy = policy(PolicyConfig::Certified(CertifiedConfig { bounds, ..CertifiedConfig::default() }));
    let changes = simulate(&mut policy, &crate::certified::need, 20 * EVERY);
    assert!(most_in_a_thousand(&changes) <= 10, "{} in {changes:?}", most_in_a_thousand(&changes));
    assert_eq!(policy.knobs(), knobs(32, 84));
}

#[test]
fn bursts_change_the_sizes_at_most_ten_times_in_a_thousand_steps() {
    let config = BucketedConfig { cells: EDGES.to_vec().into(), ..BucketedConfig::default() };
    let mut policy = policy(PolicyConfig::Bucketed(config));
    let changes = simulate(&mut policy, &crate::bucketed::need, 20 * EVERY);
    assert!(most_in_a_thousand(&changes) <= 10, "{} in {changes:?}", most_in_a_thousand(&changes));
    assert_eq!(policy.batch_sizes(), Some([64, 44, 22].as_slice()));
}

#[test]
fn a_budget_that_is_found_lower_after_a_failure_is_one_change_with_it() {
    let bounds = Bounds { patch_min: 16, patch_max: 32, patch_multiple: 8, batch_min: 2, batch_max: 64 };
    let start = Some(knobs(32, 20));
    let certified = PolicyConfig::Certified(CertifiedConfig { bounds, start, ..CertifiedConfig::default() });
    let (edges, start) = (EDGES.to_vec(), Some(vec![20, 20, 10]));
    let bucketed = PolicyConfig::Bucketed(BucketedConfig { cells: edges.into(), start, ..BucketedConfig::default() });
    let needs: [fn(StepShape) -> u64; 2] = [crate::certified::need, crate::bucketed::need];
    for (config, need) in [certified, bucketed].into_iter().zip(needs) {
        let (mut policy, budget) = (policy(config), scene::whole(200));
        let rung = policy.knobs();
        let exact = |shape| Some(Prediction { expected: Bytes(need(shape)), upper: Bytes(need(shape)) });
        let done = StepMeasured { is_divided: true, ..scene::measured(7, rung, 190, budget) };
        let signals = [
            scene::budget_changed(7, budget),
            scene::failed(7, rung),
            scene::refused(7, rung, StepShape::new(20, EDGES[1])),
            Signal::Done(done),
        ];
        for signal in signals {
            policy.on_signal(&signal, &exact);
        }
        assert_eq!((policy.adjustments(), policy.oom_count()), (1, 1), "{}", policy.name());
    }
}

#[test]
fn what_failed_is_answered_by_a_policy_that_was_saved_in_between_and_not_after_a_switch_to_checkpointing() {
    let config = CertifiedConfig { start: Some(knobs(256, 64)), ..CertifiedConfig::default() };
    let mut policy = policy(PolicyConfig::Certified(config));
    let (rung, nothing) = (policy.knobs(), |_| None);
    let answers = |policy: &mut Policy, between: Option<Signal>| {
        policy.on_signal(&scene::failed(0, rung), &nothing);
        let mut policy: Policy = serde_json::from_str(&serde_json::to_string(&policy).unwrap()).unwrap();
        if let Some(it) = between {
            policy.on_signal(&it, &nothing);
        }
        policy.on_signal(&scene::done(0, rung, 900, MEMORY), &nothing);
        policy.knobs()
    };
    assert!(answers(&mut policy.clone(), None).micro_batch_size < rung.micro_batch_size);
    assert_eq!(
        answers(&mut policy, Some(Signal::Checkpointing(Recompute::ALWAYS))),
        rung,
        "its samples have run as they were"
    );
}
