//! How the certified policy comes back up, and how long it waits before it does.

use std::cell::Cell;

use plimsoll_types::{Bytes, Prediction};

use crate::certified::{check_exact, from, need};
use crate::scene::Then::{Budget, OutOfMemory, Peak, Peaks};
use crate::scene::{self, check, knobs};

#[test]
fn a_growth_that_is_undone_makes_the_next_one_wait_for_memory_that_stays() {
    check_exact(
        &mut from(9),
        200,
        &[
            (Peaks(3, 190), "keep: the highest certified rung is in use"),
            (Budget(310), "patch 32, batch 20: at most 300 B needed, 305 B allowed"),
            (Budget(200), "patch 32, batch 9: at most 300 B needed, the budget is only 200 B"),
            (Peaks(10, 190), "keep: cooling down for 2 more steps"),
            // What comes back is too recent, and goes again.
            (Budget(310), "keep: cooling down for 12 more steps"),
            (Peaks(11, 190), "keep: cooling down for 1 more steps"),
            (Peak(190), "patch 32, batch 20: at most 300 B needed, 305 B allowed"),
            (Peak(300), "keep: cooling down for 11 more steps"),
            (Budget(200), "patch 32, batch 9: at most 300 B needed, the budget is only 200 B"),
            (Peak(190), "keep: cooling down for 47 more steps"),
            // Two thousand steps later nobody remembers.
            (Peaks(1999, 190), "keep: the highest certified rung is in use"),
            (Budget(310), "patch 32, batch 20: at most 300 B needed, 305 B allowed"),
        ],
    );
}

#[test]
fn a_growth_that_lasted_was_no_mistake() {
    check_exact(
        &mut from(9),
        200,
        &[
            (Peaks(3, 190), "keep: the highest certified rung is in use"),
            (Budget(310), "patch 32, batch 20: at most 300 B needed, 305 B allowed"),
            (Peaks(200, 300), "keep: the highest certified rung is in use"),
            (Budget(200), "patch 32, batch 9: at most 300 B needed, the budget is only 200 B"),
            (Peaks(3, 190), "keep: the highest certified rung is in use"),
            (Budget(310), "patch 32, batch 20: at most 300 B needed, 305 B allowed"),
        ],
    );
}

#[test]
fn a_co_tenant_that_comes_and_goes_a_hundred_times_ends_no_growth() {
    let mut policy = from(20);
    let mut table = vec![(Peaks(3, 300), "keep: the highest certified rung is in use")];
    for _ in 0..100 {
        table.extend([
            (Budget(280), "patch 32, batch 17: at most 300 B needed, the budget is only 280 B"),
            (Peaks(100, 270), "keep: the highest certified rung is in use"),
            (Budget(310), "patch 32, batch 20: at most 300 B needed, 305 B allowed"),
            (Peaks(200, 300), "keep: the highest certified rung is in use"),
        ]);
    }
    check_exact(&mut policy, 310, &table);
    assert_eq!(policy.adjustments(), 200);
}

#[test]
fn memory_that_comes_in_bursts_leaves_no_mark_on_the_bounds() {
    let (mut policy, burst) = (from(20), Cell::new(0));
    let predict = |shape| {
        let upper = Bytes(need(shape) + burst.get());
        Some(Prediction { expected: upper, upper })
    };
    check(&mut policy, 310, &predict, &[(Peaks(3, 300), "keep: the highest certified rung is in use")]);
    let mut step = 3;
    for n in 0..10 {
        // The bounds know of the burst while it lasts, and wait for its end where sizes stand that were entered.
        burst.set(13);
        let mut fled = String::new();
        for _ in 0..if n == 0 { 1 } else { 4 } {
            assert!(fled.is_empty() || fled.starts_with("keep: cooling down"), "{fled}");
            let done = scene::done(step, policy.knobs(), 313, scene::whole(310));
            fled = scene::shown(&policy.on_signal(&done, &predict).unwrap());
            step += 1;
        }
        assert_eq!(fled, "patch 32, batch 19: at most 313 B needed, the budget is only 310 B");
        burst.set(0);
        for _ in 0..200 {
            policy.on_signal(&scene::done(step, policy.knobs(), 290, scene::whole(310)), &predict);
            step += 1;
        }
        assert_eq!(policy.knobs(), knobs(32, 20), "at step {step}");
    }
}

#[test]
fn a_failure_that_a_fallen_budget_explains_ends_with_it() {
    check_exact(
        &mut from(20),
        310,
        &[
            (Peaks(3, 300), "keep: the highest certified rung is in use"),
            (OutOfMemory(200), "patch 32, batch 17: out of memory, for the 1st time"),
            (Budget(200), "patch 32, batch 9: at most 270 B needed, the budget is only 200 B"),
            (Peaks(10, 190), "keep: the highest certified rung is in use"),
            (Budget(310), "patch 32, batch 20: at most 300 B needed, 305 B allowed"),
        ],
    );
}

#[test]
fn a_failure_that_nothing_explains_keeps_its_rung_closed_whatever_the_budget_does_below() {
    check_exact(
        &mut from(20),
        310,
        &[
            (OutOfMemory(200), "patch 32, batch 17: out of memory, for the 1st time"),
            (Peaks(3, 270), "patch 32, batch 19: at most 290 B needed, 305 B allowed"),
            (Budget(280), "patch 32, batch 17: at most 290 B needed, the budget is only 280 B"),
            (Peaks(12, 270), "keep: the highest certified rung is in use"),
            (Budget(310), "keep: cooling down for 12 more steps"),
            (Peaks(12, 270), "patch 32, batch 19: at most 290 B needed, 305 B allowed"),
            (Budget(330), "keep: cooling down for 12 more steps"),
            (Peaks(12, 290), "patch 32, batch 22: at most 320 B needed, 325 B allowed"),
        ],
    );
}
