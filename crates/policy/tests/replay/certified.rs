//! The certified policy, event by event; the need is 100 B plus 10 B for each sample, and the certificate is exact.

use plimsoll_policy::{Bounds, CertifiedConfig, Policy, PolicyConfig};
use plimsoll_types::{Bytes, Knobs, Prediction, StepShape};

use crate::scene::Then::{Budget, OutOfMemory, Peak, Peaks};
use crate::scene::{self, Then, check, failed, knobs, policy, unknown};

const BOUNDS: Bounds = Bounds { patch_min: 16, patch_max: 32, patch_multiple: 8, batch_min: 2, batch_max: 64 };

pub(crate) fn need(shape: StepShape) -> u64 {
    100 + 10 * u64::from(shape.samples) * u64::from(shape.edge()) * u64::from(shape.edge()) / 1024
}

#[expect(clippy::unnecessary_wraps, reason = "a policy asks through this signature")]
pub(crate) fn exact(shape: StepShape) -> Option<Prediction> {
    Some(Prediction { expected: Bytes(need(shape)), upper: Bytes(need(shape)) })
}

#[expect(clippy::unnecessary_wraps, reason = "a policy asks through this signature")]
fn overconfident(_shape: StepShape) -> Option<Prediction> {
    Some(Prediction { expected: Bytes::ZERO, upper: Bytes::ZERO })
}

fn config() -> CertifiedConfig {
    CertifiedConfig { bounds: BOUNDS, reopen_after_steps: 200, ..CertifiedConfig::default() }
}

fn with(config: CertifiedConfig) -> Policy {
    policy(PolicyConfig::Certified(config))
}

pub(crate) fn from(batch: u32) -> Policy {
    let start = Some(knobs(32, batch));
    with(CertifiedConfig { start, ..config() })
}

#[track_caller]
pub(crate) fn check_exact(policy: &mut Policy, memory: u64, table: &[(Then, &str)]) {
    check(policy, memory, &exact, table);
}

#[test]
fn from_the_bottom_one_jump_reaches_the_highest_rung_that_fits() {
    check_exact(
        &mut with(config()),
        310,
        &[
            (Peak(105), "keep: warming up for 2 more steps"),
            (Peak(105), "keep: warming up for 1 more steps"),
            (Peak(105), "patch 32, batch 20: at most 300 B needed, 305 B allowed"),
            (Peak(300), "keep: cooling down for 2 more steps"),
            (Peaks(2, 300), "keep: the highest certified rung is in use"),
        ],
    );
}

#[test]
fn a_whole_step_that_fits_is_reached_though_smaller_parts_do_not() {
    // Parts keep the sum of gradients beside them, and the top rung is the whole step.
    let sum = |shape: StepShape| if shape.samples < 64 { 500 } else { 0 };
    let beside = |shape: StepShape| {
        let need = Bytes(need(shape) + sum(shape));
        Some(Prediction { expected: need, upper: need })
    };
    let table = [(Peaks(3, 640), "patch 32, batch 64: at most 740 B needed, 788 B allowed")];
    check(&mut with(config()), 800, &beside, &table);
    // From the whole step on a budget that falls leads to the parts that fit.
    let table = [(Budget(700), "patch 32, batch 8: at most 740 B needed, the budget is only 700 B")];
    check(&mut from(64), 800, &beside, &table);
}

#[test]
fn a_peak_of_the_whole_step_that_is_too_high_leads_to_parts_that_need_less_with_their_sum() {
    let sum = |shape: StepShape| if shape.samples < 64 { 500 } else { 0 };
    let beside = |shape: StepShape| {
        let need = Bytes(need(shape) + sum(shape));
        Some(Prediction { expected: need, upper: need })
    };
    let table = [(Peak(740), "patch 32, batch 13: peak 740 B, at most 738 B allowed")];
    check(&mut from(64), 742, &beside, &table);
}

#[test]
fn without_a_bound_no_rung_is_entered() {
    let table = [(Peaks(500, 1), "keep: the highest certified rung is in use")];
    check(&mut with(config()), 1000, &unknown, &table);
}

#[test]
fn noise_is_taken_off_what_an_increase_may_need() {
    let config = CertifiedConfig { noise: 0.05, ..config() };
    check_exact(&mut with(config), 310, &[(Peaks(3, 105), "patch 32, batch 18: at most 280 B needed, 289 B allowed")]);
}

#[test]
fn a_gain_below_two_percent_is_not_worth_a_change() {
    let config = CertifiedConfig {
        bounds: Bounds { batch_max: 63, ..BOUNDS },
        start: Some(knobs(32, 62)),
        ..CertifiedConfig::default()
    };
    let table = [(Peaks(3, 720), "keep: the highest certified rung would gain too little")];
    check_exact(&mut with(config), 10_000, &table);
}

#[test]
fn only_steps_at_the_rung_count_as_samples() {
    let mut policy = from(10);
    for step in 0..5 {
        policy.on_signal(&scene::done(step, knobs(32, 9), 190, scene::whole(1000)), &exact);
    }
    let decided = policy.on_signal(&scene::done(5, knobs(32, 10), 200, scene::whole(1000)), &exact);
    assert_eq!(decided.map(|it| scene::shown(&it)).as_deref(), Some("keep: 1 of 3 steps seen at this rung"));
}

#[test]
fn out_of_memory_retreats_by_15_percent_and_closes_the_rung_for_200_steps() {
    check_exact(
        &mut from(20),
        1000,
        &[
            (OutOfMemory(200), "patch 32, batch 17: out of memory, for the 1st time"),
            (Peaks(2, 270), "keep: cooling down for 1 more steps"),
            (Peak(270), "patch 32, batch 19: at most 290 B needed, 985 B allowed"),
            (Peaks(196, 290), "keep: the highest certified rung is in use"),
            (Peak(290), "patch 32, batch 64: at most 740 B needed, 985 B allowed"),
        ],
    );
}

#[test]
fn out_of_memory_under_a_ceiling_closes_all_above_the_retreat_for_twice_the_time() {
    check(
        &mut from(20),
        1000,
        &overconfident,
        &[
            (OutOfMemory(200), "patch 32, batch 17: out of memory, for the 1st time"),
            (Peaks(3, 270), "patch 32, batch 19: at most 0 B needed, 985 B allowed"),
            (OutOfMemory(200), "patch 32, batch 16: out of memory, for the 2nd time"),
            (Peaks(399, 260), "keep: the highest certified rung is in use"),
            (Peak(260), "patch 32, batch 64: at most 0 B needed, 985 B allowed"),
        ],
    );
}

#[test]
fn out_of_memory_steps_down_even_during_the_cooldown() {
    check_exact(
        &mut from(20),
        1000,
        &[
            (OutOfMemory(200), "patch 32, batch 17: out of memory, for the 1st time"),
            (OutOfMemory(200), "patch 32, batch 14: out of memory, for the 2nd time"),
        ],
    );
}

#[test]
fn a_step_that_is_split_three_times_counts_once() {
    let (mut policy, rung) = (from(20), knobs(32, 20));
    let again = "keep: cooling down for 3 more steps";
    for _ in 0..3 {
        assert_eq!(policy.on_signal(&failed(9, rung), &exact).map(|it| scene::shown(&it)).as_deref(), Some(again));
    }
    let decided = policy.on_signal(&scene::done(9, rung, 200, scene::whole(1000)), &exact).map(|it| scene::shown(&it));
    assert_eq!(decided.as_deref(), Some("patch 32, batch 17: out of memory, for the 1st time"));
    assert_eq!((policy.oom_count(), policy.adjustments()), (1, 1));
    let next = (10..13)
        .filter_map(|step| policy.on_signal(&scene::done(step, knobs(32, 17), 270, scene::whole(1000)), &exact))
        .last();
    let open = "patch 32, batch 19: at most 290 B needed, 985 B allowed";
    assert_eq!(next.map(|it| scene::shown(&it)).as_deref(), Some(open), "only the failed rung is closed");
}

#[test]
fn a_failure_that_leaves_nothing_to_run_again_is_answered_at_once() {
    let (mut policy, rung) = (from(20), knobs(32, 20));
    let decided = policy.on_signal(&scene::broken_off(9, rung, rung.shape()), &exact).map(|it| scene::shown(&it));
    assert_eq!(decided.as_deref(), Some("patch 32, batch 17: out of memory, for the 1st time"));
}

#[test]
fn below_the_smallest_batch_the_patch_shrinks_and_below_the_smallest_patch_nothing_does() {
    let mut policy = from(2);
    check_exact(
        &mut policy,
        1000,
        &[
            (OutOfMemory(50), "patch 24, batch 2: out of memory, for the 1st time"),
            (OutOfMemory(50), "patch 16, batch 2: out of memory, for the 2nd time"),
            (OutOfMemory(50), "keep: both knobs are at their bounds"),
        ],
    );
    assert_eq!(policy.oom_count(), 3);
}

#[test]
fn a_peak_above_what_is_allowed_steps_down_at_once_and_does_not_bounce_back() {
    check(
        &mut from(20),
        1000,
        &overconfident,
        &[
            (Peak(995), "keep: warming up for 2 more steps"),
            (Peak(996), "patch 32, batch 19: peak 996 B, at most 995 B allowed"),
            (Peak(996), "patch 32, batch 18: peak 996 B, at most 995 B allowed"),
            (Peaks(399, 990), "keep: the highest certified rung is in use"),
            (Peak(990), "patch 32, batch 64: at most 0 B needed, 985 B allowed"),
        ],
    );
}

#[test]
fn at_the_bottom_a_single_high_peak_is_forgotten() {
    check_exact(
        &mut with(config()),
        310,
        &[
            (Peaks(9, 400), "keep: both knobs are at their bounds"),
            (Peaks(2, 105), "keep: 2 of 3 steps seen at this rung"),
            (Peak(105), "patch 32, batch 20: at most 300 B needed, 305 B allowed"),
        ],
    );
}

#[test]
fn a_budget_that_falls_below_the_bound_is_answered_at_once() {
    check_exact(
        &mut from(20),
        310,
        &[
            (Peak(300), "keep: warming up for 2 more steps"),
            (Budget(300), "keep: warming up for 2 more steps"),
            (Budget(200), "patch 32, batch 9: at most 300 B needed, the budget is only 200 B"),
            (Budget(50), "patch 16, batch 2: at most 190 B needed, the budget is only 50 B"),
            (Budget(50), "keep: both knobs are at their bounds"),
            (Budget(310), "keep: warming up for 2 more steps"),
            (Peaks(3, 105), "patch 32, batch 20: at most 300 B needed, 305 B allowed"),
        ],
    );
}

#[test]
fn without_a_bound_a_fallen_budget_is_compared_with_the_window_and_costs_one_rung() {
    check(
        &mut from(20),
        310,
        &unknown,
        &[
            (Budget(10), "keep: warming up for 3 more steps"),
            (Budget(310), "keep: warming up for 3 more steps"),
            (Peak(300), "keep: warming up for 2 more steps"),
            (Peak(200), "keep: warming up for 1 more steps"),
            (Budget(250), "patch 32, batch 19: at most 300 B needed, the budget is only 250 B"),
        ],
    );
}

#[test]
fn a_peak_counts_against_the_budget_of_its_own_step() {
    let mut policy = from(20);
    policy.on_signal(&scene::budget_changed(0, scene::whole(1000)), &exact);
    let decided = policy.on_signal(&scene::done(0, knobs(32, 20), 300, scene::whole(290)), &exact);
    let expected = "patch 32, batch 18: at most 300 B needed, the budget is only 290 B";
    assert_eq!(decided.map(|it| scene::shown(&it)).as_deref(), Some(expected));
}

#[test]
fn after_the_brake_the_only_way_is_down() {
    let config = CertifiedConfig { max_reversals: 1, ..config() };
    check_exact(
        &mut with(config),
        310,
        &[
            (Peaks(3, 105), "patch 32, batch 20: at most 300 B needed, 305 B allowed"),
            (Peak(309), "patch 32, batch 19: peak 309 B, at most 308 B allowed"),
            (Peak(290), "brake: the policy no longer goes up: growths undone with the memory as it was: 1"),
            (Peak(290), "keep: the brake is on"),
            (OutOfMemory(200), "patch 32, batch 16: out of memory, for the 1st time"),
            (Peak(309), "patch 32, batch 15: peak 309 B, at most 308 B allowed"),
            (Budget(200), "patch 32, batch 9: at most 250 B needed, the budget is only 200 B"),
            (Budget(10_000), "keep: the brake is on"),
            (Peaks(995, 190), "keep: the brake is on"),
            (Peak(190), "patch 32, batch 64: at most 740 B needed, 9.62 KiB allowed"),
        ],
    );
}

#[test]
fn a_late_failure_of_a_rung_already_left_closes_it_without_another_step_down() {
    let mut policy = from(20);
    let left: Knobs = knobs(32, 40);
    let decided = policy.on_signal(&failed(5, left), &exact).map(|it| scene::shown(&it));
    assert_eq!(decided.as_deref(), Some("keep: cooling down for 3 more steps"));
    let climbed = (6..9)
        .filter_map(|step| policy.on_signal(&scene::done(step, knobs(32, 20), 300, scene::whole(1000)), &exact))
        .last();
    let expected = "patch 32, batch 38: at most 480 B needed, 985 B allowed";
    assert_eq!(climbed.map(|it| scene::shown(&it)).as_deref(), Some(expected));
}

#[test]
fn no_step_number_is_too_large() {
    scene::check_last_step(with(config()));
}

#[test]
fn what_a_failure_teaches_of_lower_rungs_is_one_change_with_it() {
    let (start, budget) = (knobs(32, 20), scene::whole(310));
    let config = CertifiedConfig { bounds: BOUNDS, start: Some(start), ..CertifiedConfig::default() };
    let mut policy = policy(PolicyConfig::Certified(config));
    let twice = |shape| exact(shape).map(|it| Prediction { upper: it.upper.saturating_mul(2), ..it });
    policy.on_signal(&scene::done(0, start, 300, budget), &exact);
    policy.on_signal(&failed(1, start), &twice);
    policy.on_signal(&scene::done(1, start, 300, budget), &twice);
    assert_eq!((policy.knobs(), policy.adjustments()), (knobs(32, 5), 1));
}
