//! What the first lines of a report answer.

use plimsoll_monitor::{History, Restart, RunFacts, StepSettings, TrainingReport};
use plimsoll_types::{Bytes, CheckpointSaved, Event, Goal, ItemsMeasured, NamedMetric, StepDone, Validated};

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

pub(crate) fn report(events: &[Event], step_settings: StepSettings) -> TrainingReport {
    TrainingReport::new(&History::of(events), RunFacts { step_settings, ..RunFacts::default() })
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

#[test]
fn deaths_and_what_they_cost_are_in_the_report() {
    let death = |step, undone_steps| Restart { step, death: "SIGKILL after step 31".into(), undone_steps };
    let restarts = vec![death(20, 12), death(30, 2)];
    let undone = (0..14).map(|it| StepDone { seconds: 0.25, ..run::step(it, run::knobs(16, 4)) }.into()).collect();
    let facts = RunFacts { restarts, undone, ..RunFacts::default() };
    let report = TrainingReport::new(&History::of(&validated(&[0.5])), facts.clone());
    let text = report.to_markdown();
    assert!(text.contains("| restarts | 2, for which 14 steps were done again, 3.5 s of work |"), "{text}");
    assert!(text.contains("* SIGKILL after step 31; the next one began at step 20 and did 12 steps again"), "{text}");
    // A checkpoint that was damaged costs steps as well, and nobody died.
    let facts = RunFacts { restarts: Vec::new(), ..facts };
    let text = TrainingReport::new(&History::of(&validated(&[0.5])), facts).to_markdown();
    assert!(text.contains("| steps done again | 14, 3.5 s of work |") && !text.contains("restarts"), "{text}");
}

#[test]
fn the_test_of_the_best_model_is_told_with_all_that_was_measured_and_is_no_validation() {
    let (Event::Validated(best), Event::Validated(last)) = (run::validated(2), run::validated(3)) else {
        unreachable!()
    };
    let other = NamedMetric { metric_name: "SSIM".into(), metric: 0.875, baseline: 0.5 };
    let tested = Validated { metric: 30.5, others: vec![other], peak: Bytes::gib(1), ..best.clone() };
    let worse = Validated { metric: 25.0, ..last };
    let mut events = run::small();
    events.retain(|it| !matches!(it, Event::Validated(_)));
    events.extend([best, worse].map(Event::Validated));
    let before = TrainingReport::new(&History::of(&events), RunFacts::default());
    events.push(Event::Tested(tested));
    let after = TrainingReport::new(&History::of(&events), RunFacts::default());
    let line = "PSNR (dB) 30.50 at step 2, baseline 28.25 on the same samples; SSIM 0.8750, baseline 0.5000\n";
    assert!(
        after.to_table(usize::MAX).contains(line) && !before.to_table(usize::MAX).contains("test of"),
        "{}",
        after.to_table(usize::MAX)
    );
    assert_eq!((&before.best_validation, &before.last_validation), (&after.best_validation, &after.last_validation));
    assert_eq!((before.findings, before.metric), (after.findings, after.metric));
    assert_eq!((after.peak_bytes, after.usage.validation_peak_bytes), (Some(Bytes::gib(1)), Some(Bytes::gib(1))));
}
