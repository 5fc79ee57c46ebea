//! What the bucketed policy keeps for every sequence of peaks, budgets, failures and bounds, however absurd.

use plimsoll_policy::{BucketedConfig, Policy, PolicyConfig, Predict, Signal, StepMeasured};
use plimsoll_types::{Bytes, Decision, MoveReason, Prediction, Resize, StepShape};
use proptest::prelude::*;

use crate::scene::{self, budget_changed, policy, whole};

const EDGES: [u32; 4] = [8, 16, 40, 64];

#[derive(Clone, Copy, Debug)]
enum Input {
    /// A step whose micro-batch at this edge has this peak, and so many samples fewer than it may.
    Done {
        edge: usize,
        peak: u64,
        fewer: u32,
    },
    OutOfMemory {
        edge: usize,
        splits: u32,
    },
    Budget {
        bytes: u64,
    },
}

/// One signal, with what surrounds it.
#[derive(Clone, Debug, PartialEq)]
struct Turn {
    signal: Signal,
    /// Steps done, the one of the signal included.
    now: u64,
    budget: Bytes,
    before: Vec<u32>,
    decision: Decision,
    after: Vec<u32>,
}

impl Turn {
    fn resized(&self) -> Option<&Resize> {
        match &self.decision {
            Decision::Resize(resize) => Some(resize),
            _ => None,
        }
    }

    fn raised(&self) -> bool {
        self.before.iter().zip(&self.after).any(|(before, after)| before < after)
    }
}

fn inputs() -> impl Strategy<Value = Vec<Input>> {
    let input = prop_oneof![
        12 => (0..EDGES.len(), 0u64..1050, 0u32..9).prop_map(|(edge, peak, fewer)| Input::Done { edge, peak, fewer }),
        1 => (0..EDGES.len(), 1u32..4).prop_map(|(edge, splits)| Input::OutOfMemory { edge, splits }),
        1 => (300u64..1200).prop_map(|bytes| Input::Budget { bytes }),
    ];
    prop::collection::vec(input, 1..200)
}

/// Bounds without rhyme or reason, missing for some shapes.
fn uppers() -> impl Strategy<Value = Vec<Option<u64>>> {
    prop::collection::vec(prop::option::weighted(0.8, 0u64..2000), 1..40)
}

fn lookup(uppers: &[Option<u64>], shape: StepShape) -> Option<Prediction> {
    let at = (shape.samples * 7 + shape.edge()) as usize % uppers.len();
    uppers[at].map(|upper| Prediction { expected: Bytes(upper / 2), upper: Bytes(upper) })
}

fn config() -> impl Strategy<Value = BucketedConfig> {
    let start = prop::option::of(prop::collection::vec(1u32..=20, EDGES.len()).prop_map(|mut sizes| {
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes
    }));
    (start, 0u64..6, 0u64..6, 1u64..40, 1u32..6).prop_map(
        |(start, warm_up_steps, cooldown_steps, reopen_after_steps, max_reversals)| BucketedConfig {
            cells: EDGES.to_vec().into(),
            batch_max: 20,
            start,
            warm_up_steps,
            cooldown_steps,
            reopen_after_steps,
            max_reversals,
            ..BucketedConfig::default()
        },
    )
}

fn done(step: u64, policy: &Policy, shape: StepShape, peak: u64, bytes: u64) -> Signal {
    let measured = scene::measured(step, policy.knobs(), peak, whole(bytes));
    Signal::Done(StepMeasured { highest: Some(shape), ..measured })
}

fn signals(policy: &Policy, step: u64, bytes: u64, input: Input) -> Vec<Signal> {
    let sizes = policy.batch_sizes().unwrap();
    match input {
        Input::Done { edge, peak, fewer } => {
            let samples = sizes[edge].saturating_sub(fewer).max(1);
            vec![done(step, policy, StepShape::new(samples, EDGES[edge]), peak, bytes)]
        }
        Input::Budget { .. } => vec![budget_changed(step, whole(bytes))],
        Input::OutOfMemory { edge, splits } => {
            let shape = |split: u32| StepShape::new((sizes[edge] >> split).max(1), EDGES[edge]);
            let failed = |split| scene::refused(step, policy.knobs(), shape(split));
            let mut signals: Vec<_> = (0..splits).map(failed).collect();
            signals.push(done(step, policy, shape(splits), bytes, bytes));
            signals
        }
    }
}

fn drive(policy: &mut Policy, first_step: u64, inputs: &[Input], predict: Predict<'_>) -> Vec<Turn> {
    let (mut step, mut bytes, mut turns) = (first_step, 1000, vec![]);
    for input in inputs {
        if let Input::Budget { bytes: changed } = input {
            bytes = *changed;
        }
        for signal in signals(policy, step, bytes, *input) {
            let sizes = |policy: &Policy| policy.batch_sizes().unwrap().to_vec();
            let before = sizes(policy);
            let decision = policy.on_signal(&signal, predict).expect("each of these signals is answered");
            let now = step + u64::from(!matches!(signal, Signal::BudgetChanged { .. }));
            turns.push(Turn { signal, now, budget: Bytes(bytes), before, decision, after: sizes(policy) });
        }
        step += u64::from(!matches!(input, Input::Budget { .. }));
    }
    turns
}

proptest! {
    #[test]
    fn sizes_are_at_least_one_never_grow_with_the_edge_and_change_only_by_decision(
        config in config(), inputs in inputs(), uppers in uppers(),
    ) {
        let mut policy = policy(PolicyConfig::Bucketed(config));
        let turns = drive(&mut policy, 0, &inputs, &|shape| lookup(&uppers, shape));
        for turn in &turns {
            prop_assert!(turn.after.iter().all(|size| (1..=20).contains(size)), "{turn:?}");
            prop_assert!(turn.after.is_sorted_by(|a, b| a >= b), "{turn:?}");
            let told = turn.resized().map_or((&turn.before, &turn.before), |it| (&it.from, &it.to));
            prop_assert_eq!(told, (&turn.before, &turn.after));
            prop_assert!(turn.resized().is_none_or(|it| it.from != it.to), "{turn:?}");
        }
        let n_changes = turns.iter().filter(|it| it.resized().is_some()).count();
        prop_assert_eq!(policy.adjustments() as usize, n_changes);
        prop_assert_eq!(policy.knobs().micro_batch_size, *turns.last().unwrap().after.last().unwrap());
    }

    #[test]
    fn no_increase_before_the_warm_up_or_within_the_cooldown(
        config in config(), inputs in inputs(), uppers in uppers(),
    ) {
        let mut policy = policy(PolicyConfig::Bucketed(config.clone()));
        let mut earliest = config.warm_up_steps;
        for turn in drive(&mut policy, 0, &inputs, &|it| lookup(&uppers, it)) {
            prop_assert!(!turn.raised() || earliest <= turn.now, "{turn:?}");
            if turn.resized().is_some() {
                earliest = earliest.max(turn.now + config.cooldown_steps);
            }
        }
    }

    #[test]
    fn every_batch_that_is_raised_has_a_certificate_that_fits(
        config in config(), inputs in inputs(), uppers in uppers(),
    ) {
        let turns = drive(&mut policy(PolicyConfig::Bucketed(config)), 0, &inputs, &|it| lookup(&uppers, it));
        for turn in turns.iter().filter(|turn| turn.raised()) {
            let Some(Resize { reason: MoveReason::Certified { upper, limit }, .. }) = turn.resized() else {
                panic!("{turn:?}")
            };
            prop_assert!(upper <= limit && limit.as_f64() <= 0.985 * turn.budget.as_f64(), "{turn:?}");
            let cells = turn.before.iter().zip(&turn.after).zip(EDGES);
            for ((before, after), edge) in cells {
                prop_assert!(before <= after, "{turn:?}");
                let bound = lookup(&uppers, StepShape::new(*after, edge)).map(|it| it.upper);
                prop_assert!(before == after || bound.is_some_and(|bound| bound <= *upper), "{turn:?}");
            }
        }
    }

    #[test]
    fn a_decrease_follows_at_once_or_after_a_burst(config in config(), inputs in inputs(), uppers in uppers()) {
        let turns = drive(&mut policy(PolicyConfig::Bucketed(config)), 0, &inputs, &|it| lookup(&uppers, it));
        let (mut failed, mut violated_at) = (vec![], None);
        for turn in &turns {
            if let Signal::OutOfMemory(it) = &turn.signal {
                prop_assert_eq!(&turn.before, &turn.after, "its parts come first: {:?}", turn);
                failed.push(it.shape);
                continue;
            }
            for shape in failed.drain(..) {
                for (after, _) in turn.after.iter().zip(EDGES).filter(|(_, own)| shape.edge() <= *own) {
                    let most = (f64::from(shape.samples) * 0.85).max(1.0);
                    prop_assert!(f64::from(*after) <= most, "{turn:?}");
                }
            }
            let above = |(size, edge): (&u32, u32)| {
                1 < *size && lookup(&uppers, StepShape::new(*size, edge)).is_some_and(|it| turn.budget < it.upper)
            };
            let violated = turn.before.iter().zip(EDGES).any(above);
            let since = violated.then(|| violated_at.unwrap_or(turn.now));
            violated_at = since.filter(|_| turn.resized().is_none());
            // Only a bound that no smaller budget explains waits, and steps are divided as long.
            let waits = since.is_some_and(|since| turn.now < since + 3) && turn.before == turn.after;
            prop_assert!(!violated || waits || turn.resized().is_some() && !turn.raised(), "{turn:?}");
        }
    }

    #[test]
    fn a_batch_that_failed_stays_closed_until_its_time_is_over(
        config in config(), inputs in inputs(), uppers in uppers(),
    ) {
        let t0 = config.reopen_after_steps;
        let mut closed: Vec<(StepShape, u64, Bytes)> = vec![];
        for turn in drive(&mut policy(PolicyConfig::Bucketed(config)), 0, &inputs, &|it| lookup(&uppers, it)) {
            for (_, until, budget) in &mut closed {
                // A budget that has fallen right after the failure is its reason.
                *budget = if turn.now + t0 <= *until { turn.budget.min(*budget) } else { *budget };
            }
            let is_closed = |until: u64, budget: Bytes| turn.now < until && 0.985 * turn.budget.as_f64() < budget.as_f64();
            for (shape, until, _) in closed.iter().filter(|it| is_closed(it.1, it.2)) {
                let sizes = turn.before.iter().zip(&turn.after).zip(EDGES).filter(|(_, own)| shape.edge() <= *own);
                for ((before, after), _) in sizes {
                    let stays_below = after <= before || *after < shape.samples.max(2);
                    prop_assert!(stays_below, "{turn:?}, {shape} closed until {until}");
                }
            }
            if let Signal::OutOfMemory(failed) = &turn.signal {
                // At least so long; later failures double it.
                closed.push((failed.shape, turn.now + t0, turn.budget));
            }
        }
    }

    #[test]
    fn the_same_signals_give_the_same_decisions_from_a_restored_policy(
        config in config(), before in inputs(), after in inputs(), uppers in uppers(),
    ) {
        let predict = |shape| lookup(&uppers, shape);
        let (mut one, mut other) = (policy(PolicyConfig::Bucketed(config.clone())), policy(PolicyConfig::Bucketed(config)));
        prop_assert_eq!(drive(&mut one, 0, &before, &predict), drive(&mut other, 0, &before, &predict));
        let saved = serde_json::to_string(&one).unwrap();
        let mut restored: Policy = serde_json::from_str(&saved).unwrap();
        prop_assert_eq!(&restored, &one);
        let next_step = before.len() as u64;
        let decided = drive(&mut one, next_step, &after, &predict);
        prop_assert_eq!(drive(&mut restored, next_step, &after, &predict), decided);
    }
}
