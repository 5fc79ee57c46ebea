//! What the first line of a report says of the memory.

use plimsoll_monitor::{Bound, ChosenBy, Limit, Origin, StepSettings, TrainingReport};
use plimsoll_types::{
    Budget, Bytes, Decided, Decision, Event, KeepReason, Knobs, MicroBatch, MoveReason, Resize, RunStarted, StepDone,
};

use crate::answers::report;
use crate::run::{self, knobs};

const ROOMY: Budget = Budget { capacity: Bytes::gib(8), budget: Bytes(7_730_941_132) };

/// Steps of a job whose samples have lengths, of so many micro-batches, where the policy allows `allowed` samples of an edge
/// in each.
fn of_lengths(n_parts: u64, allowed: u32, batch_max: u32) -> Vec<Event> {
    let Event::RunStarted(start) = run::started(40) else { unreachable!("a start") };
    let controller = format!(
        r#"{{"policy":{{"kind":"bucketed","edges":[16,512],"batch_max":{batch_max},"start":[{allowed},{allowed}]}}}}"#
    );
    let head = RunStarted { controller, budget: ROOMY, effective_batch_size: 4096, ..start };
    let part = |at: u64| MicroBatch::new((4 * at..4 * at + 4).collect(), 512);
    let step = |step| StepDone {
        micro_batches: (0..n_parts).map(part).collect(),
        capacity: ROOMY.capacity,
        budget: ROOMY.budget,
        peak: Bytes::mib(34),
        ..run::step(step, knobs(512, 4))
    };
    [Event::RunStarted(head)].into_iter().chain((0..40).map(|it| Event::StepDone(step(it)))).collect()
}

fn tokens(batches_per_step: u32) -> StepSettings {
    let effective_unit = "tokens".to_owned();
    StepSettings {
        effective_unit,
        batches_per_step: Some(batches_per_step),
        is_batch_a_step: false,
        is_capacity_set: true,
        ..StepSettings::default()
    }
}

#[test]
fn a_run_whose_steps_have_no_more_samples_says_that_the_effective_batch_is_the_limit() {
    let text = report(&of_lengths(1, 64, 64), tokens(1));
    assert_eq!(text.limit, Some(Limit::EffectiveBatch));
    let said = text.verdict.clone().unwrap();
    for part in ["Memory was not the limit", "0.5 % of the budget", "the effective batch of 4096 tokens"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(said.ends_with("A capacity of 37.78 MiB would have held all that was measured."), "{said}");
    assert!(text.to_table(usize::MAX).starts_with(&said) && text.to_markdown().contains(&format!("\n\n{said}\n\n")));
    let cut = report(&of_lengths(4, 64, 64), tokens(4));
    assert_eq!(cut.limit, Some(Limit::BatchesPerStep));
    assert!(
        cut.verdict.unwrap().contains("the effective batch of 4096 tokens, which `batch.batches_per_step = 4` cuts")
    );
}

#[test]
fn sizes_at_their_bound_are_told_from_sizes_that_are_not_certain_to_fit() {
    let bound = report(&of_lengths(4, 4, 4), tokens(1));
    let said = bound.verdict.unwrap();
    assert_eq!(bound.limit, Some(Limit::Bounds));
    assert!(said.contains("The limit was `batch.batch_max = 4`. A larger `batch.batch_max` takes more"), "{said}");
    assert!(!said.contains("patch"), "{said}");
    assert_eq!(report(&of_lengths(4, 4, 64), tokens(4)).limit, Some(Limit::Certainty));
}

#[test]
fn a_bound_that_nobody_has_set_is_no_bound() {
    let cut = report(&of_lengths(4, 4, 4), tokens(4));
    assert_eq!(cut.limit, Some(Limit::BatchesPerStep));
    assert!(cut.verdict.unwrap().contains("though there was room for larger ones"));
    let samples = StepSettings { effective_unit: "samples".to_owned(), ..tokens(1) };
    assert_eq!(report(&of_lengths(1, 4096, 4096), samples).limit, Some(Limit::EffectiveBatch));
    let set = StepSettings { batch_max: Some(bound(4, Origin::Set)), ..tokens(4) };
    assert_eq!(report(&of_lengths(4, 4, 4), set).limit, Some(Limit::Bounds));
}

#[test]
fn memory_that_was_used_well_is_the_limit() {
    let mut events = of_lengths(4, 4, 64);
    for event in &mut events {
        if let Event::StepDone(done) = event {
            done.peak = Bytes::gib(7);
        }
    }
    let used = report(&events, tokens(4));
    assert_eq!(used.limit, Some(Limit::Memory));
    let said = used.verdict.unwrap();
    assert!(said.starts_with("The memory was used well, and was the limit: steps reached 97 %"), "{said}");
    assert!(said.ends_with("A larger `memory.capacity` may let steps grow."), "{said}");
}

/// Steps of cut samples of one size under a policy.
fn of_cuts(policy: &str, peak: Bytes) -> TrainingReport {
    let Event::RunStarted(start) = run::started(40) else { unreachable!("a start") };
    let head = RunStarted { controller: format!(r#"{{"policy":{policy}}}"#), budget: ROOMY, ..start };
    let of_budget = |it: StepDone| StepDone { capacity: ROOMY.capacity, budget: ROOMY.budget, peak, ..it };
    let steps = (0..40).map(|it| Event::StepDone(of_budget(run::step(it, knobs(16, 4)))));
    report(&[Event::RunStarted(head)].into_iter().chain(steps).collect::<Vec<_>>(), StepSettings::default())
}

#[test]
fn sizes_that_would_not_grow_with_more_memory_are_not_told_that_memory_was_the_limit() {
    let fixed = of_cuts(r#"{"kind":"fixed"}"#, Bytes::gib(7));
    let said = fixed.verdict.unwrap();
    assert_eq!(fixed.limit, Some(Limit::Fixed));
    assert!(said.starts_with("The memory was used well: steps reached 97 %") && !said.contains("capacity"), "{said}");
    let stepwise = r#"{"kind":"stepwise","bounds":{"patch_max":64,"batch_max":64},"target":0.6,"dead_band":0.05}"#;
    let near = of_cuts(stepwise, Bytes::mib(4800));
    assert_eq!(near.limit, Some(Limit::StepwiseTarget));
    assert!(near.verdict.unwrap().contains("`policy.stepwise_target`"));
    assert_eq!(of_cuts(stepwise, Bytes::gib(2)).limit, Some(Limit::Length));
}

const fn bound(most: u32, origin: Origin) -> Bound {
    Bound { most, origin }
}

/// Settings of cut samples whose capacity was set.
fn cut(chosen_by: ChosenBy, patch_max: impl Into<Option<Bound>>, batch_max: impl Into<Option<Bound>>) -> StepSettings {
    StepSettings {
        effective_unit: "samples".to_owned(),
        is_capacity_set: true,
        chosen_by,
        patch_max: patch_max.into(),
        batch_max: batch_max.into(),
        ..StepSettings::default()
    }
}

const FIXED: &str = r#"{"kind":"fixed"}"#;

/// A policy that follows the memory between these bounds, or steps towards a target.
fn policy(kind: &str, patch_max: u32, batch_max: u32) -> String {
    let bounds = format!(r#""bounds":{{"patch_max":{patch_max},"batch_max":{batch_max}}}"#);
    format!(r#"{{"kind":"{kind}",{bounds},"target":0.85,"dead_band":0.05,"max_adjustments":2}}"#)
}

/// A run of cut samples: its head under a policy, and 40 steps of these sizes of which each reached so many percent of the budget.
fn run_of_cuts(policy: &str, effective_batch_size: u32, rung: Knobs, percent: u64) -> Vec<Event> {
    let Event::RunStarted(start) = run::started(40) else { unreachable!("a start") };
    let controller = format!(r#"{{"policy":{policy}}}"#);
    let head = RunStarted { controller, budget: ROOMY, effective_batch_size, ..start };
    let ids: Vec<u64> = (0..effective_batch_size.into()).collect();
    let parts = |n: u32| ids.chunks(n as usize).map(|it| MicroBatch::new(it.to_vec(), rung.patch_size)).collect();
    let step = |step| StepDone {
        micro_batches: parts(rung.micro_batch_size),
        capacity: ROOMY.capacity,
        budget: ROOMY.budget,
        peak: Bytes(ROOMY.budget.0 * percent / 100),
        ..run::step(step, rung)
    };
    [Event::RunStarted(head)].into_iter().chain((0..40).map(|it| Event::StepDone(step(it)))).collect()
}

/// Has every step run as micro-batches of these sizes.
fn split(events: &mut [Event], sizes: &[u64]) {
    for event in events {
        let Event::StepDone(done) = event else { continue };
        let edges = done.rung.patch_size;
        done.micro_batches = sizes.iter().map(|n| MicroBatch::new((0..*n).collect(), edges)).collect();
    }
}

fn grown() -> MoveReason {
    MoveReason::Certified { upper: Bytes::mib(160), limit: Bytes::mib(170) }
}

/// The words of the first line.
fn said(events: &[Event], settings: StepSettings) -> (Option<Limit>, String) {
    let report = report(events, settings);
    (report.limit, report.verdict.unwrap_or_default())
}

#[track_caller]
fn check(said: &str, parts: &[&str], others: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part:?} is missing: {said}");
    }
    for other in others {
        assert!(!said.contains(other), "{other:?} is there: {said}");
    }
}

#[test]
fn micro_batches_that_did_not_fit_are_told_with_what_ran_in_their_place() {
    let mut events = run_of_cuts(FIXED, 32, knobs(32, 32), 78);
    split(&mut events, &[8, 8, 8, 8]);
    let preset = bound(32, Origin::Preset);
    let (limit, fixed) = said(&events, cut(ChosenBy::FixedPolicy, preset, preset));
    assert_eq!(limit, Some(Limit::Memory));
    check(
        &fixed,
        &[
            "Memory was the limit: steps reached 78 %",
            "The batch of 32 that `policy.kind = \"fixed\"` keeps did not fit at patch 32, and steps ran as 4 \
             micro-batches of 8. `policy.kind = \"certified\"` finds sizes that fit.",
            "A larger `memory.capacity` may let larger ones run.",
        ],
        &["given", "batch_size"],
    );
    let mut events = run_of_cuts(FIXED, 32, knobs(32, 17), 82);
    split(&mut events, &[9, 8, 8, 7]);
    let (limit, found) = said(&events, cut(ChosenBy::Search, preset, preset));
    assert_eq!(limit, Some(Limit::Memory));
    check(&found, &["`batch.batch_size = \"auto\"` found", "ran as micro-batches of 9, 8, 8 and 7"], &["given"]);
    split(&mut events, &[17, 15]);
    assert_eq!(said(&events, cut(ChosenBy::Search, preset, preset)).0, Some(Limit::Fixed));
}

#[test]
fn what_a_line_advises_can_be_done() {
    let preset = bound(32, Origin::Preset);
    // The batch is as large as the effective batch already.
    let data = bound(32, Origin::Data);
    let effective = "A larger `batch.patch_max` or `batch.effective_batch_size`";
    for (chosen_by, batch_max, also) in [
        (ChosenBy::BatchSize, data, " (with a larger `batch.batch_size`) takes more"),
        (ChosenBy::FixedPolicy, data, " takes more"),
        (ChosenBy::FixedPolicy, bound(32, Origin::Set), " (with a larger `batch.batch_max`) takes more"),
        (ChosenBy::Search, data, " takes more"),
    ] {
        let events = run_of_cuts(FIXED, 32, knobs(32, 32), 30);
        let (limit, whole) = said(&events, cut(chosen_by, preset, batch_max));
        assert_eq!(limit, Some(Limit::EffectiveBatch));
        check(&whole, &[&format!("{effective}{also}")], &["A larger `batch.batch_size`", "adaptive", "given"]);
    }
    let events = run_of_cuts(FIXED, 32, knobs(32, 8), 30);
    let (limit, given) = said(&events, cut(ChosenBy::BatchSize, preset, preset));
    assert_eq!(limit, Some(Limit::Fixed));
    let parts =
        ["`batch.patch_max = 32` (the preset's) and `batch.batch_size = 8`. A larger `batch.batch_size` takes more"];
    check(&given, &[&parts[..], &["`batch.batch_size = \"adaptive\"`"]].concat(), &[]);
    let found = said(&events, cut(ChosenBy::Search, preset, preset)).1;
    check(
        &found,
        &["the batch of 8 that `batch.batch_size = \"auto\"` found"],
        &["given", "A larger `batch.batch_size`"],
    );
    let bounded = said(&events, cut(ChosenBy::FixedPolicy, preset, bound(8, Origin::Set)));
    assert_eq!(bounded.0, Some(Limit::Bounds));
    check(&bounded.1, &["(the preset's) and `batch.batch_max = 8`."], &["batch_size", "adaptive"]);
}

#[test]
fn a_patch_that_the_smallest_image_bounds_is_no_limit_of_the_configuration() {
    let events = run_of_cuts(&policy("certified", 72, 16), 128, knobs(72, 16), 1);
    let settings = cut(ChosenBy::Policy, bound(72, Origin::Data), bound(16, Origin::Set));
    let (limit, said) = said(&events, settings);
    assert_eq!(limit, Some(Limit::Bounds));
    check(
        &said,
        &["The limits were the smallest image (patch 72) and `batch.batch_max = 16`. A larger"],
        &["patch_max"],
    );
}

#[test]
fn every_lever_is_named_and_whose_it_is() {
    let events = run_of_cuts(&policy("certified", 32, 32), 32, knobs(32, 32), 35);
    let bounds = |origin| cut(ChosenBy::Policy, bound(32, origin), bound(32, Origin::Data));
    let (limit, preset) = said(&events, bounds(Origin::Preset));
    assert_eq!(limit, Some(Limit::EffectiveBatch));
    check(
        &preset,
        &[
            "The limits were `batch.patch_max = 32` (the preset's) and the effective batch of 32 samples: a micro-batch \
           holds all that a step has. A larger `batch.patch_max` or `batch.effective_batch_size` takes more memory",
        ],
        &[],
    );
    check(&said(&events, bounds(Origin::Set)).1, &["`batch.patch_max = 32` and the effective batch"], &["preset"]);
    check(&said(&events, bounds(Origin::Data)).1, &["the smallest image (patch 32) and"], &["patch_max"]);
}

#[test]
fn sizes_that_cannot_grow_are_not_told_that_memory_was_the_limit_however_full_it_was() {
    let events = run_of_cuts(&policy("certified", 32, 32), 32, knobs(32, 32), 97);
    let (limit, said) = said(&events, cut(ChosenBy::Policy, bound(32, Origin::Preset), None));
    assert_eq!(limit, Some(Limit::EffectiveBatch));
    check(&said, &["The memory was used well: steps reached 97 %"], &["memory.capacity", "was the limit", "A larger"]);
}

#[test]
fn a_batch_that_was_given_is_the_limit_by_its_own_key() {
    let of_size =
        |n| StepSettings { chosen_by: ChosenBy::BatchSize, batch_max: Some(bound(n, Origin::Data)), ..tokens(1) };
    let events = of_lengths(4, 4, 4);
    let (limit, text) = said(&events, of_size(4));
    assert_eq!(limit, Some(Limit::Fixed));
    check(&text, &["The limit was `batch.batch_size = 4`. A larger `batch.batch_size`"], &["batch_max", "fit)"]);
    // Of the longest, fewer fit.
    let resize = Resize {
        from: vec![4, 4],
        to: vec![4, 3],
        reason: MoveReason::BudgetFell { upper: Bytes::mib(172), budget: Bytes::mib(151) },
    };
    let mut events = [&events[..1], &[resized(0, resize)], &events[1..]].concat();
    for event in &mut events {
        let Event::StepDone(done) = event else { continue };
        done.micro_batches =
            [(3, 512), (4, 16), (4, 16)].map(|(n, edge)| MicroBatch::new((0..n).collect(), edge)).into();
    }
    let (limit, text) = said(&events, of_size(4));
    assert_eq!(limit, Some(Limit::Fixed));
    check(&text, &["`batch.batch_size = 4` (of 512 pixels no more than 3 fit)"], &["batch_max"]);
}

fn resized(step: u64, resize: Resize) -> Event {
    Event::Decided(Decided { step, decision: Decision::Resize(resize) })
}

#[test]
fn more_steps_are_advised_only_where_sizes_may_still_grow() {
    // The policy has changed something as often as it may.
    let low = run_of_cuts(&policy("stepwise", 32, 32), 32, knobs(32, 8), 16);
    let moves = [(3, 16, 24), (6, 24, 32)];
    let moves = moves.map(|(step, from, to)| run::moved(step, knobs(from, 8), knobs(to, 8), grown()));
    let settings = || cut(ChosenBy::Policy, bound(32, Origin::Preset), bound(32, Origin::Data));
    let (limit, text) = said(&[&low[..1], &moves, &low[1..]].concat(), settings());
    assert_eq!(limit, Some(Limit::Adjustments));
    check(&text, &["steps reached 16 %", "`policy.max_adjustments = 2`"], &["train.steps"]);
    assert_eq!(said(&[&low[..1], &moves[..1], &low[1..]].concat(), settings()).0, Some(Limit::Length));
    // Everything is at its bounds, a step after the last growth.
    let top = run_of_cuts(&policy("certified", 32, 32), 32, knobs(32, 32), 35);
    let grew = run::moved(2, knobs(16, 8), knobs(32, 32), grown());
    let short = [&top[..1], std::slice::from_ref(&grew), &top[1..3]].concat();
    let (limit, text) = said(&short, settings());
    assert_eq!(limit, Some(Limit::EffectiveBatch));
    check(&text, &["`batch.patch_max = 32`"], &["train.steps"]);
    // The policy has judged the new sizes, and knows none that fits.
    let higher = run_of_cuts(&policy("certified", 64, 32), 32, knobs(32, 32), 35);
    let keep = Event::Decided(Decided { step: 5, decision: Decision::Keep { reason: KeepReason::HighestCertified } });
    let young = [&higher[..1], &[grew], &higher[1..4]].concat();
    assert_eq!(said(&young, settings()).0, Some(Limit::Length));
    assert_eq!(said(&[&young[..], &[keep]].concat(), settings()).0, Some(Limit::Certainty));
}

#[test]
fn sizes_that_changed_after_the_last_step_are_told_with_what_was_reached_before() {
    let low = run_of_cuts(&policy("certified", 32, 32), 32, knobs(16, 8), 5);
    let grew = run::moved(39, knobs(16, 8), knobs(32, 32), grown());
    let told = report(&[&low[..], &[grew]].concat(), cut(ChosenBy::Policy, None, None));
    assert_eq!((told.limit, told.steady_budget_share), (Some(Limit::Length), None));
    let first = "The run ended as its sizes changed, from patch 16, batch 8 to patch 32, batch 32: steps reached 5.0 %";
    assert!(told.verdict.as_deref().is_some_and(|it| it.starts_with(first)), "{:?}", told.verdict);
    let fell = Resize { from: vec![8, 5], to: vec![8, 4], reason: MoveReason::OutOfMemory { count: 1 } };
    let told = report(&[&of_lengths(4, 4, 8)[..], &[resized(39, fell)]].concat(), tokens(1));
    assert_eq!(told.limit, None);
    let first = "The run ended as its sizes changed, from batches of 8, 5 to batches of 8, 4: steps reached 0.5 % of";
    assert!(told.verdict.as_deref().is_some_and(|it| it.starts_with(first)), "{:?}", told.verdict);
    // Of many lengths only the ends are named.
    let many = Resize { from: vec![8, 8, 8, 8, 8, 8, 4], to: vec![8, 8, 8, 8, 8, 7, 4], reason: grown() };
    let told = report(&[&of_lengths(4, 4, 8)[..], &[resized(39, many)]].concat(), tokens(1));
    let first = "The run ended as its sizes changed: steps reached 0.5 % of";
    assert!(told.verdict.as_deref().is_some_and(|it| it.starts_with(first)), "{:?}", told.verdict);
    assert_eq!(report(&low[..1], cut(ChosenBy::Policy, None, None)).verdict, None);
}

/// Steps of samples with lengths in two sizes, each step of one length.
fn of_two_sizes(before: (u32, f64), after: (u32, f64)) -> Vec<Event> {
    let mut events = of_lengths(4, 4, 64);
    for (at, event) in events.iter_mut().skip(1).enumerate() {
        let Event::StepDone(done) = event else { continue };
        let (edge, seconds) = if at < 20 { before } else { after };
        done.micro_batches = vec![MicroBatch::new((0..16).collect(), edge)];
        (done.rung, done.seconds) = (knobs(512, if at < 20 { 4 } else { 6 }), seconds);
    }
    events
}

#[test]
fn rates_are_compared_at_like_lengths_or_not_at_all() {
    let verdict = |events: &[Event]| said(events, tokens(1)).1;
    check(&verdict(&of_two_sizes((32, 0.05), (504, 0.07))), &[], &["micro-batches were"]);
    let faster = verdict(&of_two_sizes((512, 0.08), (512, 0.05)));
    check(&faster, &["Larger micro-batches were faster: 200.0 samples per second at batch 4, 320.0 at 6."], &[]);
    let mut mixed = of_two_sizes((512, 0.08), (512, 0.05));
    for event in &mut mixed {
        if let Event::StepDone(done) = event {
            done.micro_batches.push(MicroBatch::new((0..16).collect(), 16 + u32::try_from(done.step % 3).unwrap()));
        }
    }
    check(&verdict(&mixed), &[], &["micro-batches were"]);
}
