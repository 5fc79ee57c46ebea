//! The stepwise rule, value by value; memory is 100 B, so that a peak in bytes is a percentage.

use plimsoll_policy::{Bounds, Policy, PolicyConfig, Signal, StepMeasured, StepwiseConfig};
use plimsoll_types::{Bytes, Knobs};

use crate::scene::Then::{Budget, OutOfMemory, Peak, Peaks};
use crate::scene::{self, Then, failed, knobs, policy, unknown};

fn from(start: Knobs) -> Policy {
    with(StepwiseConfig { start: Some(start), ..StepwiseConfig::default() })
}

fn with(config: StepwiseConfig) -> Policy {
    policy(PolicyConfig::Stepwise(config))
}

#[track_caller]
fn check(policy: &mut Policy, table: &[(Then, &str)]) {
    scene::check(policy, 100, &unknown, table);
}

/// The first decision is taken after 25 steps.
#[track_caller]
fn first(start: Knobs, peak: u64, expected: &str) {
    let early = "keep: warming up for 1 more steps";
    check(&mut from(start), &[(Peaks(24, peak), early), (Peak(peak), expected)]);
}

#[test]
fn a_peak_of_60_percent_raises_the_patch_by_5() {
    first(knobs(64, 4), 60, "patch 69, batch 4: peak 60 B, room up to 80 B");
}

#[test]
fn a_peak_of_75_percent_raises_the_patch_by_2() {
    first(knobs(64, 4), 75, "patch 66, batch 4: peak 75 B, room up to 80 B");
}

#[test]
fn a_peak_of_82_percent_changes_nothing() {
    first(knobs(64, 4), 82, "keep: the peak is inside the dead band");
}

#[test]
fn the_edges_of_the_dead_band_belong_to_it() {
    first(knobs(64, 4), 80, "keep: the peak is inside the dead band");
    first(knobs(64, 4), 90, "keep: the peak is inside the dead band");
}

#[test]
fn a_peak_of_92_percent_lowers_the_batch_by_2() {
    first(knobs(64, 4), 92, "patch 64, batch 2: peak 92 B, at most 90 B allowed");
    first(knobs(64, 9), 92, "patch 64, batch 7: peak 92 B, at most 90 B allowed");
}

#[test]
fn a_peak_of_98_percent_lowers_the_batch_by_4_down_to_the_minimum() {
    first(knobs(64, 4), 98, "patch 64, batch 2: peak 98 B, at most 90 B allowed");
    first(knobs(64, 9), 98, "patch 64, batch 5: peak 98 B, at most 90 B allowed");
}

#[test]
fn at_the_largest_patch_a_peak_of_60_percent_raises_the_batch_by_8() {
    first(knobs(256, 4), 60, "patch 256, batch 12: peak 60 B, room up to 80 B");
}

#[test]
fn at_the_largest_patch_a_peak_of_75_percent_raises_the_batch_by_3() {
    first(knobs(256, 4), 75, "patch 256, batch 7: peak 75 B, room up to 80 B");
}

#[test]
fn at_the_smallest_batch_a_peak_of_92_percent_lowers_the_patch_by_2() {
    first(knobs(64, 2), 92, "patch 62, batch 2: peak 92 B, at most 90 B allowed");
    first(knobs(64, 2), 98, "patch 62, batch 2: peak 98 B, at most 90 B allowed");
}

#[test]
fn at_the_smallest_batch_a_peak_of_101_percent_lowers_the_patch_by_4() {
    first(knobs(64, 2), 101, "patch 60, batch 2: peak 101 B, at most 90 B allowed");
}

#[test]
fn a_reading_of_3_percent_before_the_warm_up_changes_nothing() {
    let mut policy = from(knobs(64, 4));
    check(&mut policy, &[(Peak(3), "keep: warming up for 24 more steps")]);
    assert_eq!((policy.knobs(), policy.adjustments()), (knobs(64, 4), 0));
}

#[test]
fn growth_is_never_more_than_8_nor_past_the_bounds() {
    first(knobs(64, 4), 3, "patch 72, batch 4: peak 3 B, room up to 80 B");
    first(knobs(254, 4), 3, "patch 256, batch 4: peak 3 B, room up to 80 B");
    first(knobs(256, 60), 3, "patch 256, batch 64: peak 3 B, room up to 80 B");
    first(knobs(256, 64), 3, "keep: both knobs are at their bounds");
    first(knobs(33, 2), 99, "patch 32, batch 2: peak 99 B, at most 90 B allowed");
    first(knobs(32, 2), 99, "keep: both knobs are at their bounds");
}

#[test]
fn a_step_of_the_patch_is_rounded_to_the_models_multiple() {
    let check = |multiple, start, peak, expected: &str| {
        let bounds = Bounds { patch_multiple: multiple, ..Bounds::default() };
        let config = StepwiseConfig { bounds, start: Some(start), ..StepwiseConfig::default() };
        check(&mut with(config), &[(Peaks(25, peak), expected)]);
    };
    check(4, knobs(64, 4), 40, "patch 72, batch 4: peak 40 B, room up to 80 B");
    check(4, knobs(64, 4), 60, "patch 68, batch 4: peak 60 B, room up to 80 B");
    check(16, knobs(64, 4), 60, "patch 80, batch 4: peak 60 B, room up to 80 B");
    check(16, knobs(64, 2), 92, "patch 48, batch 2: peak 92 B, at most 90 B allowed");
}

#[test]
fn the_cooldown_lasts_25_steps_and_the_window_begins_anew() {
    check(
        &mut from(knobs(64, 9)),
        &[
            (Peaks(25, 99), "patch 64, batch 5: peak 99 B, at most 90 B allowed"),
            (Peak(85), "keep: cooling down for 24 more steps"),
            (Peaks(23, 85), "keep: cooling down for 1 more steps"),
            (Peak(85), "keep: the peak is inside the dead band"),
        ],
    );
}

/// A step of 100 B of capacity that was run in halves.
fn divided(step: u64, policy: &Policy, peak: u64, line: u64) -> Signal {
    let budget = plimsoll_types::Budget { capacity: Bytes(100), budget: Bytes(line) };
    Signal::Done(StepMeasured { is_divided: true, ..scene::measured(step, policy.knobs(), peak, budget) })
}

/// The need is 10 B for each sample, and a step is divided that needs more than 90 B.
#[test]
fn knobs_that_do_not_fit_whole_do_not_grow() {
    let mut policy = from(knobs(256, 4));
    for step in 0..2000 {
        let need = 10 * u64::from(policy.knobs().micro_batch_size);
        let signal = if 90 < need {
            divided(step, &policy, need.div_ceil(2), 90)
        } else {
            scene::done(step, policy.knobs(), need, scene::whole(100))
        };
        policy.on_signal(&signal, &unknown);
        assert!(policy.knobs().micro_batch_size <= 12, "one growth past the line at most: {}", policy.knobs());
    }
}

#[test]
fn a_step_that_was_divided_counts_as_at_the_line_or_at_the_target_above_it() {
    let after_25_at = |line| {
        let mut policy = from(knobs(64, 9));
        let decided = (0..25).filter_map(|step| policy.on_signal(&divided(step, &policy.clone(), 55, line), &unknown));
        decided.last().map(|it| scene::shown(&it)).unwrap()
    };
    assert_eq!(after_25_at(70), "keep: the peak is inside the dead band");
    assert_eq!(after_25_at(90), "keep: the peak is inside the dead band");
    assert_eq!(after_25_at(97), "patch 64, batch 5: peak 97 B, at most 90 B allowed");
}

#[test]
fn the_highest_peak_of_the_window_decides() {
    check(
        &mut from(knobs(64, 9)),
        &[
            (Peak(92), "keep: warming up for 24 more steps"),
            (Peaks(23, 10), "keep: warming up for 1 more steps"),
            (Peak(10), "patch 64, batch 7: peak 92 B, at most 90 B allowed"),
        ],
    );
}

#[test]
fn out_of_memory_halves_both_knobs_and_doubles_the_cooldown_even_during_the_warm_up() {
    let mut policy = from(knobs(70, 9));
    check(
        &mut policy,
        &[
            (Peak(50), "keep: warming up for 24 more steps"),
            (OutOfMemory(99), "patch 35, batch 4: out of memory, for the 1st time"),
            (Peaks(49, 60), "keep: cooling down for 1 more steps"),
            (Peak(60), "patch 40, batch 4: peak 60 B, room up to 80 B"),
            (OutOfMemory(50), "patch 32, batch 2: out of memory, for the 2nd time"),
            (OutOfMemory(50), "keep: both knobs are at their bounds"),
        ],
    );
    assert_eq!((policy.oom_count(), policy.adjustments()), (3, 3));
}

#[test]
fn a_step_that_is_split_three_times_halves_the_knobs_once() {
    let mut policy = from(knobs(128, 16));
    for _ in 0..3 {
        policy.on_signal(&failed(5, knobs(128, 16)), &unknown);
    }
    assert_eq!((policy.knobs(), policy.oom_count()), (knobs(64, 8), 1));
}

#[test]
fn after_the_last_adjustment_the_policy_is_off() {
    let config = StepwiseConfig { max_adjustments: 1, start: Some(knobs(64, 4)), ..StepwiseConfig::default() };
    check(
        &mut with(config),
        &[
            (Peaks(25, 60), "patch 69, batch 4: peak 60 B, room up to 80 B"),
            (Peak(60), "brake: the knobs have changed as often as they may (1), and stay"),
            (Peaks(50, 60), "keep: the brake is on"),
            (Peaks(50, 99), "keep: the brake is on"),
            (OutOfMemory(60), "keep: the brake is on"),
        ],
    );
}

#[test]
fn at_most_100_adjustments_are_made_by_default() {
    let mut policy = from(knobs(64, 4));
    for step in 0..300 {
        let rung = policy.knobs();
        let peak = if step % 2 == 0 { 95 } else { 10 };
        for of_cooldown in 0..25 {
            policy.on_signal(&scene::done(step * 25 + of_cooldown, rung, peak, scene::whole(100)), &unknown);
        }
    }
    assert_eq!(policy.adjustments(), 100);
}

#[test]
fn another_capacity_is_what_the_next_peak_is_compared_with() {
    check(
        &mut from(knobs(64, 9)),
        &[
            (Peaks(25, 85), "keep: the peak is inside the dead band"),
            (Budget(90), "patch 64, batch 7: peak 85 B, at most 81 B allowed"),
            (Budget(85), "keep: cooling down for 25 more steps"),
        ],
    );
}

#[test]
fn no_step_number_is_too_large() {
    scene::check_last_step(from(knobs(64, 4)));
}
