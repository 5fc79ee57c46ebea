//! What the first lines of a report answer.

use plimsoll_monitor::{Limit, Restart, RunFacts, StepSettings, TrainingReport};
use plimsoll_types::{
    Budget, Bytes, CheckpointSaved, Event, Goal, ItemsMeasured, MicroBatch, RunStarted, StepDone, Validated,
};

use crate::run;

fn loss(step: u64, metric: f64) -> Event {
    let Event::Validated(it) = run::validated(step) else { unreachable!("a validation") };
    let metric_name = "loss over baseline".into();
    Event::Validated(Validated { metric, metric_name, baseline: 1.0, goal: Some(Goal::Lowest), ..it })
}

fn saved(step: u64) -> Event {
    Event::CheckpointSaved(CheckpointSaved { step, path: format!("checkpoints/step-{step:08}") })
}

/// Steps whose training loss falls, with a validation and a checkpoint after every ten.
fn validated(metrics: &[f64]) -> Vec<Event> {
    let mut events = vec![run::started(10 * metrics.len() as u64)];
    for (at, metric) in (1..).zip(metrics) {
        let done = |step| StepDone { loss: 1.0 / (1.0 + step as f64), ..run::step(step, run::knobs(16, 4)) };
        events.extend((10 * (at - 1)..10 * at).map(|step| Event::StepDone(done(step))));
        events.extend([saved(10 * at), loss(10 * at, *metric)]);
    }
    events
}

fn report(events: &[Event], step_settings: StepSettings) -> TrainingReport {
    TrainingReport::new(events, RunFacts { step_settings, ..RunFacts::default() })
}

fn findings(events: &[Event]) -> Vec<String> {
    report(events, StepSettings::default()).findings
}

#[test]
fn a_last_validation_that_is_clearly_worse_than_the_best_is_called_overfitting() {
    let events = validated(&[1.2, 0.97, 1.0, 1.03]);
    let report = report(&events, StepSettings::default());
    let (best, last) = (report.best_validation.unwrap(), report.last_validation.unwrap());
    assert_eq!((best.step, best.metric, last.step, last.metric), (20, 0.97, 40, 1.03));
    assert_eq!(best.checkpoint.as_deref(), Some("checkpoints/step-00000020"));
    assert_eq!(report.last_checkpoint.as_deref(), Some("checkpoints/step-00000040"));
    assert_eq!(report.findings.len(), 2, "{:?}", report.findings);
    let [overfits, below] = [&report.findings[0], &report.findings[1]];
    let said =
        "Overfitting: loss over baseline was 0.9700 at step 20, and is 1.030 at step 40, while the training loss";
    assert!(overfits.starts_with(said) && overfits.contains("`checkpoints/step-00000020` holds"), "{overfits}");
    assert!(below.starts_with("On what was held out the last model is worse than the baseline"), "{below}");
}

#[test]
fn a_validation_that_wavers_around_the_best_is_no_overfitting() {
    assert_eq!(findings(&validated(&[0.8, 0.5, 0.52])), [""; 0]);
    assert_eq!(findings(&validated(&[0.8, 0.6, 0.5])), [""; 0]);
}

#[test]
fn a_model_that_is_no_better_than_the_baseline_is_named() {
    let found = findings(&validated(&[1.4, 1.2, 1.1]));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("no better than the baseline, not even at its best") && found[0].contains("1.100"));
}

#[test]
fn a_last_validation_of_an_earlier_step_says_so() {
    let mut events = validated(&[0.8, 0.6]);
    events.extend((20..27).map(|it| Event::StepDone(run::step(it, run::knobs(16, 4)))));
    assert_eq!(findings(&events), ["The last validation is of step 20, and 27 steps are done."]);
}

#[test]
fn the_whole_set_at_the_end_is_no_part_of_the_series_and_a_part_alone_is_named() {
    let part = Some(ItemsMeasured { n: 256, of: 6800 });
    let partly =
        |it: Event| if let Event::Validated(it) = it { Event::Validated(Validated { part, ..it }) } else { it };
    let mut events: Vec<_> = validated(&[0.8, 0.5, 0.51]).into_iter().map(partly).collect();
    assert!(findings(&events)[0].starts_with("The model was validated on 256 of the 6800 items"));
    events.push(loss(30, 0.7));
    assert_eq!(findings(&events), [""; 0]);
    let report = report(&events, StepSettings::default());
    assert_eq!(report.best_validation.map(|it| it.step), Some(20));
    assert_eq!(report.last_validation.map(|it| (it.metric, it.part)), Some((0.7, None)));
}

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
        ..run::step(step, run::knobs(512, 4))
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
        is_batch_max_set: false,
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
    assert!(text.to_table().starts_with(&said) && text.to_markdown().contains(&format!("\n\n{said}\n\n")));
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
    assert!(said.contains("the bound of the sizes, `batch.batch_max`: batch 4 of 512 pixels is the largest"), "{said}");
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
    let set = StepSettings { is_batch_max_set: true, ..tokens(4) };
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
    let steps = (0..40).map(|it| Event::StepDone(of_budget(run::step(it, run::knobs(16, 4)))));
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

#[test]
fn deaths_and_what_they_cost_are_in_the_report() {
    let death = |step, undone_steps| Restart { step, death: "SIGKILL after step 31".into(), undone_steps };
    let restarts = vec![death(20, 12), death(30, 2)];
    let report =
        TrainingReport::new(&validated(&[0.5]), RunFacts { restarts, undone_seconds: 3.25, ..RunFacts::default() });
    let text = report.to_markdown();
    assert!(text.contains("| restarts | 2, for which 14 steps were done again, 3.2 s of work |"), "{text}");
    assert!(text.contains("* SIGKILL after step 31; the next one began at step 20 and did 12 steps again"), "{text}");
}
