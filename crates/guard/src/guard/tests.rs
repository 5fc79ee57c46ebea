mod properties;

use std::iter::once;

use plimsoll_types::StepShape;

use super::*;

const BUDGET: Bytes = Bytes::mib(90);

fn out_of_memory(is_worth_a_retry: bool) -> Failure {
    Failure::OutOfMemory { needed: Some(Bytes::mib(100)), is_worth_a_retry }
}

/// Runs the parts of a step until it is to be checked, or does not go on.
fn run(
    guard: &mut Guard,
    parts: impl IntoIterator<Item = Range<usize>>,
    mut ahead: impl FnMut(&Range<usize>) -> Ahead,
    mut attempt: impl FnMut(&Range<usize>) -> Result<(), Failure>,
) -> Now {
    let mut now = guard.begin(parts, BUDGET, true);
    loop {
        now = match now {
            Now::Look(part) => guard.on(Happened::Seen(ahead(&part))),
            Now::Run(part) => guard.on(attempt(&part).map_or_else(Happened::Failed, |()| Happened::Ran)),
            now => return now,
        };
    }
}

fn unknown(_: &Range<usize>) -> Ahead {
    Ahead::default()
}

fn of_shape(part: &Range<usize>) -> Ahead {
    Ahead { shape: Some(StepShape::new(u32::try_from(part.len()).unwrap(), 8)), ..Ahead::default() }
}

fn gives_up(now: &Now, guard: &mut Guard) -> Obstacle {
    let Now::Ask(asked) = now else { panic!("{now:?}") };
    assert!(guard.is_stopped());
    assert_eq!(guard.on(Happened::Asked(Means::default())), Now::GiveUp(asked.clone()));
    assert!(!guard.is_stopped());
    asked.clone()
}

#[test]
fn what_is_predicted_not_to_fit_is_halved_before_it_is_tried() {
    let per_sample = |part: &Range<usize>| {
        let upper = Some(Bytes::mib(20).saturating_mul(part.len() as u64));
        Ahead { upper, ..Ahead::default() }
    };
    let (mut guard, mut tried) = (Guard::default(), 0);
    let now = run(&mut guard, [0..10, 10..12], per_sample, |_| {
        tried += 1;
        Ok(())
    });
    assert_eq!((now, guard.ran(), tried), (Now::CheckSum, &[0..3, 3..5, 5..8, 8..10, 10..12][..], 5));
    assert_eq!(guard.on(Happened::SumFits), Now::Update);
}

#[test]
fn a_single_sample_is_tried_even_when_the_bound_says_no() {
    let hopeless = |_: &Range<usize>| Ahead { upper: Some(Bytes::gib(1)), ..Ahead::default() };
    let mut guard = Guard::default();
    assert_eq!(run(&mut guard, once(0..2), hopeless, |_| Ok(())), Now::CheckSum);
    assert_eq!(guard.ran(), [0..1, 1..2]);
}

#[test]
fn a_single_sample_that_was_measured_to_need_too_much_is_not_tried() {
    let too_much =
        |part: &Range<usize>| Ahead { too_much: part.contains(&1).then_some(Bytes::mib(100)), ..Ahead::default() };
    let (mut guard, mut tried) = (Guard::default(), Vec::new());
    let now = run(&mut guard, [0..1, 1..2, 2..3], too_much, |part| {
        tried.push(part.start);
        Ok(())
    });
    let misfit = GuardError::NeverFits { sample: 1, needed: Some(Bytes::mib(100)), budget: BUDGET };
    assert_eq!((gives_up(&now, &mut guard), tried), (Obstacle::Samples(misfit), vec![0]));
    // What several samples need together says nothing of one.
    assert_eq!(run(&mut guard, once(0..2), too_much, |_| Ok(())), Now::CheckSum);
}

#[test]
fn one_sample_that_does_not_fit_ends_the_step_with_the_numbers() {
    let mut guard = Guard::default();
    let now =
        run(&mut guard, once(0..4), unknown, |part| if part.contains(&1) { Err(out_of_memory(false)) } else { Ok(()) });
    let Obstacle::Samples(misfit) = gives_up(&now, &mut guard) else { panic!("{now:?}") };
    assert_eq!(misfit, GuardError::NeverFits { sample: 1, needed: Some(Bytes::mib(100)), budget: BUDGET });
    assert_eq!(misfit.to_string(), "one sample alone does not fit: needs 100.00 MiB, budget 90.00 MiB");
}

#[test]
fn what_a_cleanup_may_help_is_tried_once_more_before_it_is_halved() {
    let (mut guard, mut tried) = (Guard::default(), Vec::new());
    let now = run(&mut guard, once(0..4), of_shape, |part| {
        tried.push(part.clone());
        // A part fits after a cleanup, as if something else had held the memory.
        let fits = part.len() <= 2 && tried.iter().filter(|it| *it == part).count() > 1;
        if fits { Ok(()) } else { Err(out_of_memory(true)) }
    });
    assert_eq!((now, guard.ran()), (Now::CheckSum, &[0..2, 2..4][..]));
    assert_eq!(tried, [0..4, 0..4, 0..2, 0..2, 2..4, 2..4]);
}

#[test]
fn later_parts_as_large_as_one_that_failed_run_in_halves_at_once() {
    let (mut guard, mut tried) = (Guard::default(), Vec::new());
    let now = run(&mut guard, [0..4, 4..8, 8..11], of_shape, |part| {
        tried.push(part.len());
        if part.len() < 4 { Ok(()) } else { Err(out_of_memory(false)) }
    });
    assert_eq!((now, tried), (Now::CheckSum, vec![4, 2, 2, 2, 2, 3]));
    // In the next step they are tried again.
    assert_eq!(run(&mut guard, once(0..4), of_shape, |_| Ok(())), Now::CheckSum);
    assert_eq!(guard.ran(), once(0..4).collect::<Vec<_>>());
}

#[test]
fn a_tensor_that_is_never_served_is_halved_at_once_and_at_last_named() {
    let (allocation, largest) = (Bytes::gib(5), Bytes::gib(4));
    let (mut guard, mut tries) = (Guard::default(), 0);
    let now = run(&mut guard, once(0..2), unknown, |_| {
        tries += 1;
        Err(Failure::NeverFits { allocation, largest })
    });
    let Obstacle::Samples(misfit) = gives_up(&now, &mut guard) else { panic!("{now:?}") };
    assert_eq!((tries, &misfit), (2, &GuardError::TensorNeverFits { sample: 0, allocation, largest }));
    assert!(misfit.to_string().contains("5.00 GiB") && misfit.to_string().contains("4.00 GiB"), "{misfit}");
}

#[test]
fn a_sum_that_fails_is_made_once_more_after_a_cleanup() {
    let mut guard = Guard::default();
    assert_eq!(run(&mut guard, once(0..2), unknown, |_| Ok(())), Now::CheckSum);
    assert_eq!(guard.on(Happened::SumFailed), Now::CleanUp);
    assert_eq!((guard.on(Happened::CleanedUp), guard.ran()), (Now::Look(0..2), &[][..]));
    assert_eq!(guard.on(Happened::Seen(Ahead::default())), Now::Run(0..2));
    assert_eq!(guard.on(Happened::Ran), Now::CheckSum);
    let now = guard.on(Happened::SumFailed);
    assert_eq!(gives_up(&now, &mut guard), Obstacle::Sum);
}

#[test]
fn a_part_that_may_not_be_halved_stands_in_the_way_at_once() {
    let upper = |part: &Range<usize>| Ahead { upper: Some(Bytes::mib(30 * part.len() as u64)), ..Ahead::default() };
    let whole = |ahead: Ahead, failure| {
        let mut guard = Guard::default();
        let mut now = guard.begin([0..2, 2..6], BUDGET, false);
        loop {
            now = match now {
                Now::Look(part) if part.len() == 2 => guard.on(Happened::Seen(Ahead::default())),
                Now::Look(_) => guard.on(Happened::Seen(ahead)),
                Now::Run(part) if part.len() == 2 => guard.on(Happened::Ran),
                Now::Run(_) => guard.on(Happened::Failed(failure)),
                now => return gives_up(&now, &mut guard),
            };
        }
    };
    let stands = |needed: u64| {
        let needed = Some(Bytes::mib(needed));
        Obstacle::Samples(GuardError::NotDivided { n_samples: 4, needed, budget: BUDGET })
    };
    assert_eq!(whole(upper(&(2..6)), out_of_memory(false)), stands(120));
    assert_eq!(whole(Ahead::default(), out_of_memory(false)), stands(100));
    assert_eq!(whole(Ahead::default(), out_of_memory(true)), stands(100));
    let tensor = Failure::NeverFits { allocation: Bytes::mib(70), largest: Bytes::mib(60) };
    assert_eq!(whole(Ahead::default(), tensor), stands(70));
}

/// What is in the way, what can be done, and what is done.
#[track_caller]
fn check(happened: Happened, means: Means, expected: &Now) {
    let mut guard = Guard::default();
    assert_eq!(run(&mut guard, once(3..4), unknown, |_| Ok(())), Now::CheckSum);
    if happened == Happened::SumFailed {
        guard.on(happened);
    }
    assert!(matches!(guard.on(happened), Now::Ask(_)));
    assert_eq!(guard.on(Happened::Asked(means)), *expected);
}

#[test]
fn what_costs_least_is_done_first() {
    let all = Means { step: 7, may_raise_budget: true, may_recompute: true, may_leave_out: true };
    let no_raise = Means { may_raise_budget: false, ..all };
    let neither = Means { may_recompute: false, ..no_raise };
    for happened in [Happened::SumFailed, Happened::ItemNeverFits] {
        check(happened, all, &Now::RaiseBudget);
    }
    check(Happened::SumFailed, no_raise, &Now::Recompute);
    check(Happened::SumFailed, neither, &Now::GiveUp(Obstacle::Sum));
    // An item of a validation keeps no activations, and belongs to no step.
    check(Happened::ItemNeverFits, no_raise, &Now::GiveUp(Obstacle::Item));
    check(Happened::WeightsLost, all, &Now::GoBack);
    check(Happened::UpdateFailed { has_copy: false }, all, &Now::GoBack);
    check(Happened::UpdateFailed { has_copy: true }, all, &Now::TakeAgain);
    for (means, expected) in [(all, Now::RaiseBudget), (no_raise, Now::Recompute), (neither, Now::LeaveOut(3))] {
        let mut guard = Guard::default();
        let now = run(&mut guard, once(3..4), unknown, |_| Err(out_of_memory(false)));
        assert!(matches!(now, Now::Ask(_)), "{now:?}");
        assert_eq!(guard.on(Happened::Asked(means)), expected);
    }
}

#[test]
fn where_failures_are_silent_lost_weights_are_looked_for_before_a_sample_is_blamed() {
    let mut guard = Guard::new(true);
    let stop = |guard: &mut Guard| run(guard, once(0..1), unknown, |_| Err(out_of_memory(false)));
    assert_eq!(stop(&mut guard), Now::ReadWeights);
    let now = guard.on(Happened::Weights { are_whole: true });
    assert!(matches!(gives_up(&now, &mut guard), Obstacle::Samples(_)));
    assert_eq!(stop(&mut guard), Now::ReadWeights);
    let lost = Obstacle::Update { has_copy: false };
    assert_eq!(guard.on(Happened::Weights { are_whole: false }), Now::Ask(lost));
    assert_eq!(guard.on(Happened::Asked(Means { may_leave_out: true, ..Means::default() })), Now::GoBack);
    assert_eq!(guard.on(Happened::ItemNeverFits), Now::ReadWeights);
}

#[test]
fn an_optimizer_that_fails_at_the_same_step_again_or_too_often_is_given_up() {
    let mut guard = Guard::default();
    let failed = Obstacle::Update { has_copy: true };
    let fail = |guard: &mut Guard, step| {
        assert_eq!(guard.on(Happened::UpdateFailed { has_copy: true }), Now::Ask(failed.clone()));
        guard.on(Happened::Asked(Means { step, ..Means::default() }))
    };
    assert_eq!(fail(&mut guard, 3), Now::TakeAgain);
    assert_eq!(fail(&mut guard, 3), Now::GiveUp(failed.clone()));
    guard.note_saved();
    for step in 4..9 {
        assert_eq!(fail(&mut guard, step), Now::TakeAgain, "{step}");
    }
    assert_eq!(fail(&mut guard, 9), Now::GiveUp(failed.clone()));
    guard.note_saved();
    assert_eq!(fail(&mut guard, 10), Now::TakeAgain);
}

#[test]
fn an_optimizer_that_gets_on_from_its_copy_may_fail_as_often_as_it_likes_and_one_that_goes_back_may_not() {
    let fail = |guard: &mut Guard, step, has_copy| {
        guard.on(Happened::UpdateFailed { has_copy });
        guard.on(Happened::Asked(Means { step, ..Means::default() }))
    };
    let mut guard = Guard::default();
    for step in 0..4 * u64::from(MOST_RECOVERIES) {
        assert_eq!(fail(&mut guard, step, true), Now::TakeAgain);
        guard.note_updated();
    }
    for step in 100..100 + u64::from(MOST_RECOVERIES) {
        assert_eq!(fail(&mut guard, step, false), Now::GoBack);
        guard.note_updated();
    }
    assert!(matches!(fail(&mut guard, 200, false), Now::GiveUp(_)));
}

#[test]
fn a_step_that_was_read_once_and_could_not_be_has_its_sum_to_lose_still() {
    let mut guard = Guard::default();
    let ran = |guard: &mut Guard| {
        assert_eq!(guard.on(Happened::Seen(Ahead::default())), Now::Run(0..2));
        assert_eq!(guard.on(Happened::Ran), Now::CheckSum);
    };
    assert_eq!(guard.begin(once(0..2), Bytes::mib(1), true), Now::Look(0..2));
    ran(&mut guard);
    assert_eq!(guard.on(Happened::Unread), Now::CleanUp);
    assert_eq!(guard.on(Happened::CleanedUp), Now::Look(0..2));
    ran(&mut guard);
    assert_eq!(guard.on(Happened::SumFailed), Now::CleanUp);
}
