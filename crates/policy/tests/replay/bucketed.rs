//! The bucketed policy, event by event; the need is 100 B plus 1 B for each padded position, and the certificate exact.

use std::cell::Cell;

use plimsoll_policy::{BucketedConfig, Policy, PolicyConfig, Predict, Signal, StepMeasured};
use plimsoll_types::{Budget, Bytes, Knobs, Prediction, StepShape};

use crate::scene::{self, budget_changed, knobs, policy, shown, unknown, whole};

const EDGES: [u32; 3] = [10, 20, 40];

/// What happens next; the step number comes from the run itself.
enum Then {
    /// So many steps of a full micro-batch at each edge, of which only the last may change anything.
    Steps(u64),
    /// The next step runs micro-batches of these samples, edges and peaks.
    Peaks(&'static [(u32, u32, u64)]),
    /// The next step runs out of memory with so many samples of an edge, once for each, and is committed in parts: only
    /// that may change anything.
    Fails(&'static [(u32, u32)]),
    /// From now on there is this much.
    Budget(u64),
}

use Then::{Budget as NewBudget, Fails, Peaks, Steps};

pub(crate) fn need(shape: StepShape) -> u64 {
    100 + u64::from(shape.samples) * u64::from(shape.edge())
}

#[expect(clippy::unnecessary_wraps, reason = "a policy asks through this signature")]
fn exact(shape: StepShape) -> Option<Prediction> {
    Some(Prediction { expected: Bytes(need(shape)), upper: Bytes(need(shape)) })
}

#[expect(clippy::unnecessary_wraps, reason = "a policy asks through this signature")]
fn overconfident(_shape: StepShape) -> Option<Prediction> {
    Some(Prediction { expected: Bytes::ZERO, upper: Bytes::ZERO })
}

fn config() -> BucketedConfig {
    BucketedConfig { cells: EDGES.to_vec().into(), reopen_after_steps: 200, ..BucketedConfig::default() }
}

fn with(config: BucketedConfig) -> Policy {
    policy(PolicyConfig::Bucketed(config))
}

fn from(sizes: [u32; 3]) -> Policy {
    with(BucketedConfig { start: Some(sizes.to_vec()), ..config() })
}

/// A step whose micro-batches had these shapes and peaks.
fn done(step: u64, rung: Knobs, batches: &[(u32, u32, u64)], budget: Budget) -> Signal {
    let highest = batches.iter().max_by_key(|(_, _, peak)| *peak);
    let peak = highest.map_or(0, |(_, _, peak)| *peak);
    let highest = highest.map(|(n, edge, _)| StepShape::new(*n, *edge));
    Signal::Done(StepMeasured { highest, ..scene::measured(step, rung, peak, budget) })
}

fn failed(step: u64, (samples, edge): (u32, u32)) -> Signal {
    scene::refused(step, knobs(edge, samples), StepShape::new(samples, edge))
}

fn full(policy: &Policy) -> Vec<(u32, u32, u64)> {
    let sizes = policy.batch_sizes().unwrap().iter().zip(EDGES);
    sizes.map(|(size, edge)| (*size, edge, need(StepShape::new(*size, edge)))).collect()
}

#[track_caller]
fn check(policy: &mut Policy, memory: u64, predict: Predict<'_>, table: &[(Then, &str)]) {
    let (mut step, mut budget) = (0, whole(memory));
    for (row, (then, expected)) in table.iter().enumerate() {
        let mut last = String::new();
        let mut play = |policy: &mut Policy, signal: Signal| {
            assert!(last.is_empty() || last.starts_with("keep"), "in row {row} the table leaves out: {last}");
            last = shown(&policy.on_signal(&signal, predict).expect("a decision"));
        };
        match then {
            NewBudget(bytes) => {
                budget = whole(*bytes);
                play(policy, budget_changed(step, budget));
            }
            Steps(n) => {
                for _ in 0..*n {
                    let batches = full(policy);
                    play(policy, done(step, policy.knobs(), &batches, budget));
                    step += 1;
                }
            }
            Peaks(batches) => {
                play(policy, done(step, policy.knobs(), batches, budget));
                step += 1;
            }
            Fails(attempts) => {
                for attempt in *attempts {
                    play(policy, failed(step, *attempt));
                }
                play(policy, done(step, policy.knobs(), &[(1, 40, memory)], budget));
                step += 1;
            }
        }
        assert_eq!(last, *expected, "row {row}, after {step} steps");
    }
}

#[test]
fn one_jump_reaches_the_largest_batches_that_fit() {
    let mut policy = with(config());
    check(
        &mut policy,
        1000,
        &exact,
        &[
            (Steps(1), "keep: warming up for 1 more steps"),
            (Steps(1), "[64, 44, 22]: at most 980 B needed, 985 B allowed"),
            (Steps(9), "keep: the highest certified rung is in use"),
        ],
    );
    assert_eq!(policy.knobs(), knobs(40, 22));
    assert_eq!(policy.adjustments(), 1);
}

#[test]
fn without_a_bound_no_batch_is_raised() {
    check(&mut from([8, 4, 2]), 1000, &unknown, &[(Steps(500), "keep: the highest certified rung is in use")]);
}

#[test]
fn an_edge_without_a_bound_stays_as_it_is() {
    let only_short = |shape: StepShape| exact(shape).filter(|_| shape.edge() < 40);
    check(
        &mut with(config()),
        1000,
        &only_short,
        &[
            (Steps(1), "keep: warming up for 1 more steps"),
            (Steps(1), "[64, 44, 1]: at most 980 B needed, 985 B allowed"),
        ],
    );
}

#[test]
fn a_longer_edge_never_has_more_than_a_shorter_one() {
    // The middle edge needs twice as much as it should.
    let odd = |shape: StepShape| exact(if shape.edge() == 20 { StepShape::new(shape.samples, 80) } else { shape });
    check(
        &mut with(config()),
        1000,
        &odd,
        &[
            (Steps(1), "keep: warming up for 1 more steps"),
            (Steps(1), "[64, 11, 11]: at most 980 B needed, 985 B allowed"),
        ],
    );
}

#[test]
fn an_increase_waits_for_the_cooldown_and_for_a_gain_that_is_worth_it() {
    let config = BucketedConfig { cooldown_steps: 3, min_gain: 0.25, ..config() };
    check(
        &mut with(config),
        1000,
        &exact,
        &[
            (Steps(1), "keep: warming up for 1 more steps"),
            (Steps(1), "[64, 44, 22]: at most 980 B needed, 985 B allowed"),
            (NewBudget(1600), "keep: cooling down for 3 more steps"),
            (Steps(2), "keep: cooling down for 1 more steps"),
            (Steps(1), "[64, 64, 36]: at most 1.50 KiB needed, 1.54 KiB allowed"),
            (NewBudget(1700), "keep: cooling down for 3 more steps"),
            (Steps(3), "keep: the highest certified rung would gain too little"),
        ],
    );
}

#[test]
fn a_budget_below_a_bound_lowers_that_edge_at_once_and_longer_ones_to_no_more() {
    check(
        &mut from([64, 44, 22]),
        1000,
        &exact,
        &[
            (NewBudget(980), "keep: warming up for 2 more steps"),
            (NewBudget(979), "[64, 42, 21]: at most 980 B needed, the budget is only 979 B"),
            (NewBudget(400), "[29, 14, 7]: at most 940 B needed, the budget is only 400 B"),
            (NewBudget(100), "[1, 1, 1]: at most 390 B needed, the budget is only 100 B"),
            (Steps(3), "keep: the highest certified rung is in use"),
            (NewBudget(1000), "[64, 44, 22]: at most 980 B needed, 985 B allowed"),
        ],
    );
}

#[test]
fn an_edge_whose_single_sample_does_not_fit_keeps_no_other_edge_down() {
    let loose = |shape: StepShape| exact(if shape.edge() == 40 { StepShape::new(10, 40) } else { shape });
    let table =
        [(Steps(1), "keep: warming up for 1 more steps"), (Steps(1), "[3, 1, 1]: at most 130 B needed, 137 B allowed")];
    check(&mut with(config()), 140, &loose, &table);
}

#[test]
fn out_of_memory_takes_15_percent_of_that_edge_and_of_longer_ones_and_closes_the_rest() {
    check(
        &mut from([60, 40, 38]),
        10_000,
        &exact,
        &[
            (Fails(&[(40, 20)]), "[60, 34, 34]: out of memory, for the 1st time"),
            (Steps(1), "[64, 34, 34]: at most 740 B needed, 9.62 KiB allowed"),
            (Steps(198), "keep: the highest certified rung is in use"),
            (Steps(1), "[64, 64, 64]: at most 2.60 KiB needed, 9.62 KiB allowed"),
        ],
    );
}

#[test]
fn a_batch_that_fails_again_is_closed_for_twice_the_time() {
    check(
        &mut from([64, 40, 20]),
        10_000,
        &overconfident,
        &[
            (Fails(&[(20, 40)]), "[64, 40, 17]: out of memory, for the 1st time"),
            (Steps(1), "[64, 64, 17]: at most 0 B needed, 9.62 KiB allowed"),
            (Steps(198), "keep: the highest certified rung is in use"),
            (Steps(1), "[64, 64, 64]: at most 0 B needed, 9.62 KiB allowed"),
            (Fails(&[(30, 40)]), "[64, 64, 25]: out of memory, for the 2nd time"),
            (Steps(399), "keep: the highest certified rung is in use"),
            (Steps(1), "[64, 64, 64]: at most 0 B needed, 9.62 KiB allowed"),
        ],
    );
}

#[test]
fn halves_that_fail_too_lower_the_batch_further_in_one_change_and_count_once() {
    let (mut policy, budget) = (from([64, 40, 20]), whole(10_000));
    let rung = policy.knobs();
    let mut play = |signal| shown(&policy.on_signal(&signal, &exact).unwrap());
    let [waits, at_bounds] = ["keep: cooling down for 1 more steps", "keep: both knobs are at their bounds"];
    let decided = [(20, 40), (10, 40), (20, 20), (1, 40)].map(|attempt| play(failed(0, attempt)));
    assert_eq!(decided, [waits, waits, waits, at_bounds]);
    assert_eq!(play(done(0, rung, &[(1, 40, 100)], budget)), "[64, 17, 1]: out of memory, for the 1st time");
    assert_eq!(play(failed(1, (1, 40))), at_bounds);
    assert_eq!((policy.adjustments(), policy.oom_count()), (1, 2));
}

#[test]
fn a_failure_that_leaves_nothing_to_run_again_is_answered_at_once() {
    let mut policy = from([64, 40, 20]);
    let signals = [failed(0, (20, 40)), scene::broken_off(0, knobs(20, 40), StepShape::new(40, 20))];
    let decided = signals.map(|signal| shown(&policy.on_signal(&signal, &exact).unwrap()));
    assert_eq!(decided, ["keep: cooling down for 1 more steps", "[64, 34, 17]: out of memory, for the 1st time"]);
}

#[test]
fn a_peak_that_is_too_high_lowers_the_edge_that_had_it() {
    check(
        &mut from([64, 44, 22]),
        1000,
        &overconfident,
        &[
            (Peaks(&[(64, 10, 740), (44, 20, 995), (22, 40, 980)]), "keep: warming up for 1 more steps"),
            (Peaks(&[(64, 10, 740), (44, 20, 996), (22, 40, 980)]), "[64, 42, 22]: peak 996 B, at most 995 B allowed"),
            (Peaks(&[(64, 10, 740), (19, 40, 997)]), "[64, 42, 18]: peak 997 B, at most 995 B allowed"),
            // A batch that is left already, whose step was under way when the sizes changed.
            (Peaks(&[(22, 40, 999)]), "keep: the highest certified rung is in use"),
            (Peaks(&[(1, 40, 999)]), "[64, 42, 1]: peak 999 B, at most 995 B allowed"),
            (Steps(196), "keep: the highest certified rung is in use"),
            (Steps(1), "[64, 64, 1]: at most 0 B needed, 985 B allowed"),
        ],
    );
}

#[test]
fn a_growth_that_is_undone_makes_the_next_one_wait_for_memory_that_stays() {
    check(
        &mut from([64, 44, 22]),
        1000,
        &exact,
        &[
            (Steps(2), "keep: the highest certified rung is in use"),
            (NewBudget(1200), "[64, 53, 27]: at most 1.15 KiB needed, 1.15 KiB allowed"),
            (NewBudget(1000), "[64, 44, 22]: at most 1.15 KiB needed, the budget is only 1000 B"),
            (NewBudget(1200), "keep: cooling down for 4 more steps"),
            (Steps(3), "keep: cooling down for 1 more steps"),
            (Steps(1), "[64, 53, 27]: at most 1.15 KiB needed, 1.15 KiB allowed"),
        ],
    );
}

#[test]
fn what_a_burst_has_lowered_comes_back_in_one_change() {
    let (mut policy, since, budget) = (with(config()), Cell::new(1000), whole(1000));
    // The bounds of the edges forget a burst one after another, 20 steps apart.
    let predict = |shape: StepShape| {
        let forgets = [(10, 20), (20, 40), (40, 60)].map(|(edge, at)| (edge == shape.edge(), at));
        let knows = forgets.iter().any(|(is_own, at)| *is_own && since.get() < *at);
        let upper = Bytes(need(shape) * if knows { 13 } else { 10 } / 10);
        Some(Prediction { expected: upper, upper })
    };
    for step in 0..10_500 {
        // Each comes long after the last one is forgotten.
        since.set(if 1000 < step { step % 900 } else { 1000 });
        let batches = full(&policy);
        policy.on_signal(&done(step, policy.knobs(), &batches, budget), &predict);
    }
    assert_eq!(policy.batch_sizes(), Some([64, 44, 22].as_slice()));
    assert_eq!(policy.adjustments(), 1 + 2 * 10, "down and up again for each of ten bursts");
}

#[test]
fn a_failure_that_a_fallen_budget_explains_ends_with_it() {
    check(
        &mut from([64, 44, 22]),
        1000,
        &exact,
        &[
            (Steps(2), "keep: the highest certified rung is in use"),
            (Fails(&[(22, 40)]), "[64, 44, 18]: out of memory, for the 1st time"),
            (NewBudget(700), "[56, 29, 14]: at most 980 B needed, the budget is only 700 B"),
            (Steps(3), "keep: the highest certified rung is in use"),
            (NewBudget(1000), "[64, 44, 22]: at most 980 B needed, 985 B allowed"),
        ],
    );
}

#[test]
fn after_the_brake_the_only_way_is_down() {
    check(
        &mut with(BucketedConfig { max_reversals: 1, ..config() }),
        1000,
        &exact,
        &[
            (Steps(1), "keep: warming up for 1 more steps"),
            (Steps(1), "[64, 44, 22]: at most 980 B needed, 985 B allowed"),
            (Fails(&[(22, 40)]), "[64, 44, 18]: out of memory, for the 1st time"),
            (Steps(1), "brake: the policy no longer goes up: growths undone with the memory as it was: 1"),
            (NewBudget(900), "[64, 38, 18]: at most 980 B needed, the budget is only 900 B"),
            (NewBudget(10_000), "keep: the brake is on"),
            (Steps(998), "keep: the brake is on"),
            (Steps(1), "[64, 64, 64]: at most 2.60 KiB needed, 9.62 KiB allowed"),
        ],
    );
}

#[test]
fn no_step_number_is_too_large() {
    scene::check_last_step(with(config()));
}

#[test]
fn what_a_failure_teaches_of_all_edges_is_one_change_with_it() {
    let (mut policy, budget) = (from([40, 20, 10]), whole(600));
    let rung = policy.knobs();
    policy.on_signal(&done(0, rung, &full(&policy), budget), &exact);
    let twice = |shape: StepShape| {
        let upper = Bytes(2 * need(shape));
        Some(Prediction { expected: upper, upper })
    };
    policy.on_signal(&failed(1, (10, 40)), &twice);
    policy.on_signal(&done(1, rung, &[(5, 40, 600)], budget), &twice);
    assert_eq!((policy.batch_sizes(), policy.adjustments()), (Some(&[19, 9, 4][..]), 1));
}
