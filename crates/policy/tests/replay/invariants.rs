//! What holds for every sequence of peaks, budgets, failures and bounds, however absurd.

use plimsoll_policy::{Bounds, CertifiedConfig, FixedConfig, Policy, PolicyConfig, Predict, Signal, StepwiseConfig};
use plimsoll_types::{Bytes, Change, Decision, KeepReason, Knobs, MoveReason, Prediction, StepShape};
use proptest::prelude::*;

use crate::scene::{budget_changed, done, failed, knobs, policy, whole};

const BOUNDS: Bounds = Bounds { patch_min: 16, patch_max: 40, patch_multiple: 8, batch_min: 2, batch_max: 20 };

#[derive(Clone, Copy, Debug)]
enum Input {
    Done { peak: u64 },
    OutOfMemory { splits: usize },
    Budget { bytes: u64 },
}

/// One signal, with what surrounds it.
#[derive(Clone, Debug, PartialEq)]
struct Turn {
    signal: Signal,
    /// Steps done, the one of the signal included.
    now: u64,
    budget: Bytes,
    before: Knobs,
    decision: Decision,
    after: Knobs,
}

impl Turn {
    fn change(&self) -> Option<&Change> {
        match &self.decision {
            Decision::Move(change) => Some(change),
            Decision::Keep { .. } | Decision::Resize(_) | Decision::Brake { .. } => None,
        }
    }

    fn raised(&self) -> Option<&Change> {
        self.change().filter(|it| it.to.shape().covers(it.from.shape()))
    }

    fn lowered(&self) -> bool {
        self.change().is_some() && self.raised().is_none()
    }
}

fn inputs() -> impl Strategy<Value = Vec<Input>> {
    let input = prop_oneof![
        12 => (0u64..1100).prop_map(|peak| Input::Done { peak }),
        1 => (1usize..4).prop_map(|splits| Input::OutOfMemory { splits }),
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

fn signals(rung: Knobs, step: u64, bytes: u64, input: Input) -> Vec<Signal> {
    let budget = whole(bytes);
    match input {
        Input::Done { peak } => vec![done(step, rung, peak, budget)],
        Input::Budget { .. } => vec![budget_changed(step, budget)],
        Input::OutOfMemory { splits } => {
            let mut signals = vec![failed(step, rung); splits];
            signals.push(done(step, rung, 1, budget));
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
        for signal in signals(policy.knobs(), step, bytes, *input) {
            let before = policy.knobs();
            let decision = policy.on_signal(&signal, predict).expect("each of these signals is answered");
            let now = step + u64::from(!matches!(signal, Signal::BudgetChanged { .. }));
            turns.push(Turn { signal, now, budget: Bytes(bytes), before, decision, after: policy.knobs() });
        }
        step += u64::from(!matches!(input, Input::Budget { .. }));
    }
    turns
}

fn certified() -> impl Strategy<Value = CertifiedConfig> {
    let start = prop::option::of((2u32..=20).prop_map(|batch| knobs(40, batch)));
    (start, 0u64..6, 0u64..6, 1u32..4, 1u64..40, 1u32..6).prop_map(
        |(start, warm_up_steps, cooldown_steps, min_samples, reopen_after_steps, max_reversals)| CertifiedConfig {
            bounds: BOUNDS,
            start,
            warm_up_steps,
            cooldown_steps,
            min_samples,
            reopen_after_steps,
            max_reversals,
            ..CertifiedConfig::default()
        },
    )
}

/// A rung that failed, with the budget at which it did.
#[derive(Clone, Copy, Debug)]
struct Closed {
    rung: Knobs,
    at: u64,
    budget: Bytes,
}

impl Closed {
    /// A budget that has fallen right after the failure is its reason.
    fn hear(&mut self, now: u64, budget: Bytes) {
        if now <= self.at {
            self.budget = self.budget.min(budget);
        }
    }

    fn is_its_budget(&self, budget: Bytes) -> bool {
        0.985 * budget.as_f64() < self.budget.as_f64()
    }
}

fn any_policy() -> impl Strategy<Value = PolicyConfig> {
    let stepwise = (1u64..10).prop_map(|steps| StepwiseConfig {
        bounds: BOUNDS,
        warm_up_steps: steps,
        cooldown_steps: steps,
        ..StepwiseConfig::default()
    });
    prop_oneof![
        certified().prop_map(PolicyConfig::Certified),
        stepwise.prop_map(PolicyConfig::Stepwise),
        Just(PolicyConfig::Fixed(FixedConfig::of(knobs(24, 4)))),
    ]
}

proptest! {
    #[test]
    fn v1_the_knobs_stay_within_the_bounds_and_move_only_by_decision(
        config in any_policy(), inputs in inputs(), uppers in uppers(),
    ) {
        let mut policy = policy(config);
        let turns = drive(&mut policy, 0, &inputs, &|shape| lookup(&uppers, shape));
        for turn in &turns {
            prop_assert!(BOUNDS.contain(turn.after), "{turn:?}");
            prop_assert!(policy.ladder().is_none_or(|it| it.index_of(turn.after).is_some()), "{turn:?}");
            let told = turn.change().map_or((turn.before, turn.before), |it| (it.from, it.to));
            prop_assert_eq!(told, (turn.before, turn.after));
        }
        let n_moves = turns.iter().filter(|it| it.change().is_some()).count();
        prop_assert_eq!(policy.adjustments() as usize, n_moves);
    }

    #[test]
    fn v2_no_increase_before_the_warm_up_or_within_the_cooldown(
        config in certified(), inputs in inputs(), uppers in uppers(),
    ) {
        let turns = drive(&mut policy(PolicyConfig::Certified(config.clone())), 0, &inputs, &|it| lookup(&uppers, it));
        let mut earliest = config.warm_up_steps;
        for turn in turns {
            prop_assert!(turn.raised().is_none() || earliest <= turn.now, "{turn:?}");
            if turn.change().is_some() {
                earliest = earliest.max(turn.now + config.cooldown_steps);
            }
        }
    }

    #[test]
    fn v3_an_increase_has_a_certificate_that_fits(config in certified(), inputs in inputs(), uppers in uppers()) {
        let turns = drive(&mut policy(PolicyConfig::Certified(config)), 0, &inputs, &|it| lookup(&uppers, it));
        for turn in turns {
            let Some(change) = turn.raised() else { continue };
            let MoveReason::Certified { upper, limit } = change.reason else { panic!("{turn:?}") };
            prop_assert_eq!(Some(upper), lookup(&uppers, turn.after.shape()).map(|it| it.upper));
            prop_assert!(upper <= limit && limit.as_f64() <= 0.985 * turn.budget.as_f64(), "{turn:?}");
        }
    }

    #[test]
    fn v4_a_decrease_follows_at_once_and_batch_shrinks_before_patch(
        config in certified(), inputs in inputs(), uppers in uppers(),
    ) {
        let mut policy = policy(PolicyConfig::Certified(config));
        let mut failed_step = None;
        for turn in drive(&mut policy, 0, &inputs, &|shape| lookup(&uppers, shape)) {
            let upper = lookup(&uppers, turn.before.shape()).map(|it| it.upper);
            let must = match &turn.signal {
                Signal::OutOfMemory(failed) => {
                    failed_step = Some(failed.step);
                    prop_assert_eq!(turn.before, turn.after, "its parts come first: {:?}", turn);
                    false
                }
                Signal::Done(done) if failed_step == Some(done.step) => true,
                // A bound that tells of it divides the steps until a burst is over.
                Signal::Done(_) if upper.is_some_and(|it| turn.budget < it) => false,
                Signal::Done(done) => done.knobs == turn.before && 0.995 * turn.budget.as_f64() < done.peak.as_f64(),
                _ => upper.is_some_and(|it| turn.budget < it),
            };
            prop_assert!(!must || turn.lowered() || turn.before == BOUNDS.smallest(), "{turn:?}");
            let patch_shrank = turn.after.patch_size < turn.before.patch_size;
            prop_assert!(!patch_shrank || turn.after.micro_batch_size == BOUNDS.batch_min, "{turn:?}");
        }
    }

    #[test]
    fn v5_a_rung_that_failed_stays_closed_until_its_time_is_over(
        config in certified(), inputs in inputs(), uppers in uppers(),
    ) {
        let t0 = config.reopen_after_steps;
        let (mut closed, mut failed_step) = (Vec::<Closed>::new(), None);
        for turn in drive(&mut policy(PolicyConfig::Certified(config)), 0, &inputs, &|it| lookup(&uppers, it)) {
            for it in &mut closed {
                it.hear(turn.now, turn.budget);
                let stays_below = turn.after != it.rung && it.rung.shape().covers(turn.after.shape());
                let is_shut = turn.now < it.at + t0 && it.is_its_budget(turn.budget);
                prop_assert!(turn.raised().is_none() || !is_shut || stays_below, "{turn:?}, {it:?}");
            }
            let closes = match &turn.signal {
                Signal::OutOfMemory(failed) => failed_step.replace(failed.step) != Some(failed.step),
                _ => turn.change().is_some_and(|it| matches!(it.reason, MoveReason::PeakTooHigh { .. })),
            };
            if closes {
                // At least so long; failures in a row double it.
                closed.push(Closed { rung: turn.before, at: turn.now, budget: turn.budget });
            }
        }
    }

    #[test]
    fn a_braked_policy_only_moves_down_and_says_so_once(config in certified(), inputs in inputs(), uppers in uppers()) {
        let max = config.max_reversals;
        let turns = drive(&mut policy(PolicyConfig::Certified(config)), 0, &inputs, &|it| lookup(&uppers, it));
        let (mut raised_at, mut n_reversals) = (None, 0);
        for (at, turn) in turns.iter().enumerate() {
            if turn.raised().is_some() {
                prop_assert!(n_reversals < max, "{turn:?}");
                raised_at = Some((turn.now, turn.budget));
            } else if turn.lowered() {
                // A budget that falls before the next step may be the reason.
                let is_explained = turns[at..].iter().any(|it| it.now <= turn.now && it.budget < turn.budget);
                let is_reversal = raised_at.take().is_some_and(|(at, budget)| turn.now < at + 20 && budget <= turn.budget);
                n_reversals += u32::from(is_reversal && !is_explained);
            }
        }
        let mut is_braked = false;
        for turn in &turns {
            match turn.decision {
                Decision::Brake { .. } => {
                    prop_assert!(!is_braked, "said twice: {turn:?}");
                    is_braked = true;
                }
                Decision::Keep { reason: KeepReason::Braked } => prop_assert!(is_braked, "{turn:?}"),
                // Neither a way down nor a failure says anything of the way up.
                Decision::Keep { reason: KeepReason::AtBounds } => {}
                // Nor does a burst that may not be over.
                Decision::Keep { reason: KeepReason::Cooldown { .. } }
                    if lookup(&uppers, turn.before.shape()).is_some_and(|it| turn.budget < it.upper) => {}
                _ => is_braked &= turn.lowered() || matches!(turn.signal, Signal::OutOfMemory(_)),
            }
        }
    }

    #[test]
    fn v10_the_same_signals_give_the_same_decisions(config in any_policy(), inputs in inputs(), uppers in uppers()) {
        let predict = |shape| lookup(&uppers, shape);
        let (mut one, mut other) = (policy(config.clone()), policy(config));
        prop_assert_eq!(drive(&mut one, 0, &inputs, &predict), drive(&mut other, 0, &inputs, &predict));
        prop_assert_eq!(one, other);
    }

    #[test]
    fn a_restored_policy_decides_like_the_one_that_was_saved(
        config in any_policy(), before in inputs(), after in inputs(), uppers in uppers(),
    ) {
        let predict = |shape| lookup(&uppers, shape);
        let mut policy = policy(config);
        drive(&mut policy, 0, &before, &predict);
        let saved = serde_json::to_string(&policy).unwrap();
        let mut restored: Policy = serde_json::from_str(&saved).unwrap();
        prop_assert_eq!(&restored, &policy);
        prop_assert_eq!(serde_json::to_string(&restored).unwrap(), saved);
        let next_step = before.len() as u64;
        let decided = drive(&mut policy, next_step, &after, &predict);
        prop_assert_eq!(drive(&mut restored, next_step, &after, &predict), decided);
    }
}
