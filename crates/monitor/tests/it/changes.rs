//! What the report says to change, and why.

use plimsoll_monitor::{History, RunFacts, StepSettings, TrainingReport};
use plimsoll_types::{Event, RunStarted, StepDone};

use crate::run;

fn changes(events: &[Event], facts: RunFacts) -> Vec<[String; 2]> {
    let report = TrainingReport::new(&History::of(events), facts);
    report.changes.into_iter().map(|it| [it.setting, it.figure]).collect()
}

#[test]
fn a_run_without_trouble_is_told_nothing() {
    assert_eq!(changes(&run::settled(400), RunFacts::default()), [] as [[String; 2]; 0]);
    assert_eq!(changes(&[], RunFacts::default()), [] as [[String; 2]; 0]);
}

#[test]
fn what_costs_most_is_named_with_its_key_and_its_figure() {
    let of_run = |undone: u64, part: f64| {
        let undone = (0..undone).map(|it| run::step(it, run::knobs(48, 7)).into()).collect();
        let step_settings = StepSettings { is_capacity_set: true, ..StepSettings::default() };
        let facts =
            RunFacts { undone, waiting: Some((21.0, part)), seconds: 100.0, step_settings, ..RunFacts::default() };
        changes(&run::settled(400), facts)
    };
    let both = of_run(60, 0.21);
    assert_eq!(both[0], ["train.checkpoint_every", "60 steps were done twice, 15 s of 1m 40s"]);
    assert_eq!(both[1], ["data.workers", "steps waited 21 s for samples, 21 % of their time"]);
    assert_eq!(both[2], ["memory.capacity", "steps reached 89 % of the budget"]);
    // A tenth of the time is worth a change, and less is not.
    let keys: Vec<_> = of_run(39, 0.09).into_iter().map(|it| it[0].clone()).collect();
    assert_eq!(keys, ["memory.capacity"]);
}

#[test]
fn padding_names_the_edges_where_more_of_them_would_pad_less() {
    let step = |n| StepDone { real_positions: Some(600), ..run::step(n, run::knobs(64, 4)) };
    let events: Vec<Event> = (0..4).map(|it| Event::StepDone(step(it))).collect();
    let facts = |lacks_edges| RunFacts {
        step_settings: StepSettings { lacks_edges, ..StepSettings::default() },
        ..RunFacts::default()
    };
    assert_eq!(changes(&events, facts(true)), [["batch.n_edges", "41 % of the positions were padding"]]);
    assert_eq!(changes(&events, facts(false)), [] as [[String; 2]; 0]);
    let findings = |lacks_edges| TrainingReport::new(&History::of(&events), facts(lacks_edges)).findings.join(" ");
    assert!(findings(true).contains("a larger `batch.n_edges` pads less"));
    assert!(findings(false).contains("there are edges enough"));
}

#[test]
fn padding_is_held_against_what_the_edges_promise() {
    let report = |real: u64, planned: Option<f64>| {
        let Event::RunStarted(start) = run::started(4) else { unreachable!("the head of a log") };
        let head = Event::RunStarted(RunStarted { planned_padding: planned, unit_of_length: "tokens".into(), ..start });
        let step = |n| Event::StepDone(StepDone { real_positions: Some(real), ..run::step(n, run::knobs(64, 4)) });
        TrainingReport::new(&History::of(&[head, step(0), step(1)]), RunFacts::default())
    };
    // A step has 1024 positions.
    let above = report(920, Some(0.04));
    assert_eq!(above.findings.len(), 1);
    assert!(
        above.findings[0].contains("10 % of the positions") && above.findings[0].contains("edges alone make it 4.0 %")
    );
    assert!(
        above.to_markdown().contains("10 % padding (4.0 % planned)")
            && above.to_json().contains("\"planned_padding\": 0.04")
    );
    assert!(
        above.to_html(&History::default(), &RunFacts::default(), "").contains("<dd class=\"bad\">10 % (4.0 % planned)")
    );
    assert_eq!(report(940, Some(0.04)).findings, [""; 0], "8 % is less than five points above");
    assert_eq!(report(920, None).findings, [""; 0], "nothing was promised");
}
