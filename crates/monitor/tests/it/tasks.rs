use insta::assert_snapshot;
use plimsoll_monitor::{
    BatchMetrics, EpochMetrics, History, RunFacts, Table, TrainingReport, memory_timeline, task_comparison,
};
use plimsoll_types::{
    Bytes, Decided, Decision, EpochDone, Event, MicroBatch, MoveReason, NamedMetric, Resize, RunStarted, StepDone,
    TaskStep, Validated,
};

use crate::plots::{assert_drawn, texts};
use crate::run;

const NAMES: [&str; 3] = ["one image", "several of one subject", "pairs"];
const EDGES: [u32; 4] = [16, 32, 64, 128];

fn started(names: &[&str], n_steps: u64) -> Event {
    let Event::RunStarted(start) = run::started(n_steps) else { unreachable!("a start") };
    let tasks = names.iter().map(|it| (*it).to_owned()).collect();
    let unit_of_length = "images".into();
    Event::RunStarted(RunStarted { job: "multitask".into(), tasks, unit_of_length, ..start })
}

/// What a step does for a task; every seventh step has no sample of the last one.
fn task_step(step: u64, task: u32, weight: f64) -> TaskStep {
    let noise = ((step * 31 + u64::from(task) * 7) * 2_654_435_761 % 1000) as f64 / 1000.0;
    let missing = task == 2 && step % 7 == 3;
    let loss = (0.3 + 0.2 * f64::from(task) + 2.0 / (1.0 + 0.05 * step as f64)) * (0.85 + 0.3 * noise);
    TaskStep {
        samples: if missing { 0 } else { 4 + task },
        loss: (!missing).then_some(loss),
        gradient_norm: (!missing).then_some(0.5 + noise),
        weight,
    }
}

/// A step of micro-batches of at most these sizes, the shortest edge first, with the weights that a balance would give.
fn step(step: u64, sizes: [u32; 4], vary: bool) -> StepDone {
    let drift = if vary { 0.4 * (1.0 - 1.0 / (1.0 + 0.02 * step as f64)) } else { 0.0 };
    let weights = [1.0 - drift, 1.0 + drift / 3.0, 1.0 + 2.0 * drift / 3.0];
    // Not every edge is in every step.
    let edges = sizes.iter().zip(EDGES).filter(|(_, edge)| u64::from(*edge) >= 16 << (step % 3));
    let micro_batch = |(size, edge): (&u32, u32)| MicroBatch {
        peak: Some(Bytes::mib(24 + u64::from(size * edge) / 6)),
        ..MicroBatch::new((0..u64::from(*size)).collect(), edge)
    };
    let mut micro_batches: Vec<_> = edges.map(micro_batch).collect();
    micro_batches.reverse();
    StepDone {
        peak: micro_batches.iter().filter_map(|it| it.peak).max().unwrap_or(Bytes::ZERO),
        micro_batches,
        skipped: if step == 1 { vec![77, 78] } else { Vec::new() },
        tasks: (0..).zip(weights).map(|(task, weight)| task_step(step, task, weight)).collect(),
        ..run::step(step, run::knobs(EDGES[3], sizes[3]))
    }
}

fn validated(step: u64, tasks: Vec<NamedMetric>) -> Event {
    let Event::Validated(it) = run::validated(step) else { unreachable!("a validation") };
    Event::Validated(Validated { tasks, ..it })
}

fn metric(name: &str, metric: f64, baseline: f64) -> NamedMetric {
    NamedMetric { metric_name: name.into(), metric, baseline }
}

fn metrics() -> Vec<NamedMetric> {
    vec![
        metric("cross-entropy (nats)", 0.612, 1.386),
        metric("cross-entropy (nats)", 0.871, 1.099),
        metric("accuracy (%)", 61.5, 50.0),
    ]
}

/// A run on three tasks, whose sizes are raised once and fall once.
fn run_of(n_steps: u64, vary: bool) -> Vec<Event> {
    let sizes = |step: u64| match step {
        0..=1 => [1, 1, 1, 1],
        2..=9 => [32, 20, 10, 5],
        _ => [32, 20, 9, 4],
    };
    let mut events = vec![started(&NAMES, n_steps)];
    for n in 0..n_steps {
        events.push(Event::StepDone(step(n, sizes(n), vary)));
        if sizes(n) != sizes(n + 1) {
            let reason = match n {
                9 => MoveReason::OutOfMemory { count: 1 },
                _ => MoveReason::Certified { upper: Bytes::mib(160), limit: run::MEMORY.budget },
            };
            let (from, to) = (sizes(n).to_vec(), sizes(n + 1).to_vec());
            events.push(Event::Decided(Decided { step: n, decision: Decision::Resize(Resize { from, to, reason }) }));
        }
    }
    events.push(validated(n_steps, metrics()));
    events.push(Event::EpochDone(EpochDone { epoch: 0, step: n_steps - 1, samples: 96, dropped: 0 }));
    events
}

fn report(events: &[Event]) -> TrainingReport {
    TrainingReport::new(&History::of(events), RunFacts { seconds: 65.4, ..RunFacts::default() })
}

#[test]
fn every_step_says_what_it_did_for_each_task() {
    assert_snapshot!(BatchMetrics::default().of(&run_of(4, true)));
}

#[test]
fn every_epoch_says_what_it_did_for_each_task() {
    assert_snapshot!(EpochMetrics::default().of(&run_of(4, true)));
}

#[test]
fn the_report_has_a_row_for_each_task() {
    let report = report(&run_of(14, true));
    assert_snapshot!(report.to_markdown() + &report.to_table(usize::MAX));
    assert_snapshot!(report.to_json());
}

#[test]
fn batch_sizes_that_change_are_adjustments() {
    let report = report(&run_of(14, false));
    assert_eq!((report.adjustments, report.samples_skipped), (2, 2));
    let shown: Vec<_> = report.decisions.iter().map(|it| format!("{} → {}", it.from, it.to)).collect();
    assert_eq!(
        shown,
        ["batches of 1 → batches of 32, 20, 10, 5", "batches of 32, 20, 10, 5 → batches of 32, 20, 9, 4"]
    );
    let json = report.to_json();
    assert_eq!(serde_json::from_str::<TrainingReport>(&json).unwrap(), report);
}

#[test]
fn sizes_along_several_axes_are_of_cells() {
    let mut events = run_of(14, false);
    let Some(Event::RunStarted(start)) = events.first_mut() else { unreachable!("a start") };
    start.controller = r#"{"policy":{"kind":"bucketed","edges":[[1,16],[1,32],[2,32],[4,64]]}}"#.into();
    let report = report(&events);
    let change = "| 9 | micro_batch_size of 2 of 4 cells in images | batches of 10, 5 | batches of 9, 4 |";
    let markdown = report.to_markdown();
    assert!(markdown.contains(change), "{markdown}");
    assert_eq!(serde_json::from_str::<TrainingReport>(&report.to_json()).unwrap(), report);
}

#[test]
fn the_comparison_says_what_it_shows() {
    assert_snapshot!(texts(&task_comparison(&History::of(&run_of(300, true))).unwrap()));
}

#[test]
fn weights_are_shown_where_they_vary() {
    let heading = "weight of each task";
    assert!(task_comparison(&History::of(&run_of(30, true))).unwrap().svg.contains(heading));
    assert!(!task_comparison(&History::of(&run_of(30, false))).unwrap().svg.contains(heading));
}

#[test]
fn the_timeline_of_many_edges_says_what_it_shows() {
    assert_snapshot!(texts(&memory_timeline(&History::of(&run_of(40, true)), &RunFacts::default())));
}

#[test]
fn a_run_without_tasks_has_no_comparison() {
    assert_eq!(task_comparison(&History::of(&run::small())), None);
    assert_eq!(task_comparison(&History::of(&[])), None);
    // One alone is in the training curves.
    let alone = |it: Event| match it {
        Event::RunStarted(it) => Event::RunStarted(RunStarted { tasks: it.tasks[..1].to_vec(), ..it }),
        Event::StepDone(it) => Event::StepDone(StepDone { tasks: it.tasks[..1].to_vec(), ..it }),
        Event::Validated(it) => Event::Validated(Validated { tasks: it.tasks[..1].to_vec(), ..it }),
        other => other,
    };
    let events: Vec<_> = run_of(30, true).into_iter().map(alone).collect();
    assert!(task_comparison(&History::of(&events)).is_none());
    assert!(!TrainingReport::new(&History::of(&events), RunFacts::default()).to_markdown().contains("task_comparison"));
}

#[test]
fn tasks_with_hardly_anything_to_show_are_drawn() {
    let names: Vec<String> = (0..20).map(|it| format!("a task whose name has no room anywhere, number {it}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let odd = StepDone {
        tasks: vec![TaskStep { samples: 0, loss: Some(f64::NAN), gradient_norm: None, weight: f64::NAN }; 2],
        ..step(0, [1; 4], false)
    };
    let runs = [
        vec![started(&NAMES, 3)],
        vec![started(&names, 3), Event::StepDone(step(0, [1; 4], false))],
        vec![Event::StepDone(odd)],
        vec![validated(0, vec![metric("loss", 1.0, 0.0), metric("loss", f64::NAN, 1.0)])],
        vec![started(&names, 3), validated(0, (1..20).map(|it| metric("loss", f64::from(it * it), 1.0)).collect())],
    ];
    for events in runs {
        let plot = task_comparison(&History::of(&events)).unwrap();
        assert!(plot.svg.contains("loss of each task") && !plot.svg.contains("NaN"), "{events:?}");
        assert_drawn(&plot);
    }
}

#[test]
fn a_long_comparison_stays_light() {
    let plot = task_comparison(&History::of(&run_of(20_000, true))).unwrap();
    assert!(plot.svg.len() < 200_000, "{} bytes", plot.svg.len());
}

#[test]
fn a_size_that_a_policy_allows_and_no_step_fills_is_not_drawn() {
    let mut events = run_of(40, true);
    let drawn = memory_timeline(&History::of(&events), &RunFacts::default()).svg;
    let first = events.iter_mut().find_map(|it| if let Event::Decided(it) = it { Some(it) } else { None });
    let Some(Decided { decision: Decision::Resize(resize), .. }) = first else { unreachable!("an adjustment") };
    resize.to = vec![860; 4];
    assert!(drawn == memory_timeline(&History::of(&events), &RunFacts::default()).svg);
}

#[test]
fn a_prediction_of_nothing_says_nothing_of_how_far_predictions_are_off() {
    let done = |n, predicted| Event::StepDone(StepDone { predicted: Some(predicted), ..step(n, [8, 4, 2, 1], false) });
    let errors = |events: &[Event]| {
        let report = TrainingReport::new(&History::of(events), RunFacts::default());
        report.tasks.iter().map(|it| it.prediction_error).collect::<Vec<_>>()
    };
    let known = errors(&[started(&NAMES, 2), done(1, Bytes::mib(20))]);
    assert!(known.iter().all(Option::is_some), "{known:?}");
    assert_eq!(errors(&[started(&NAMES, 2), done(0, Bytes::ZERO), done(1, Bytes::mib(20))]), known);
}
