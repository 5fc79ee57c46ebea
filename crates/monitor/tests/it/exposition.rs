//! What Prometheus scrapes.

use std::collections::BTreeSet;

use insta::assert_snapshot;
use plimsoll_monitor::Exposition;
use plimsoll_types::{Bytes, Event, RunStarted, StepDone, SupplyStep};

use crate::run;

/// What a step of a stream says of its samples.
pub(crate) const SUPPLY: SupplyStep = SupplyStep {
    workers: 2,
    waited_seconds: 0.125,
    ready_steps: 3,
    buffered_samples: 40,
    buffered_bytes: Bytes::mib(2),
    buffer_fill: 0.5,
};

const PAGE: &str = include_str!("../../../../docs/tools.md");

fn exposition(events: &[Event]) -> Exposition {
    let mut exposition = Exposition::default();
    for it in events {
        exposition.hear(it);
    }
    exposition
}

#[test]
fn a_run_is_shown_with_its_units() {
    assert_snapshot!(exposition(&run::small()).to_text());
}

/// A run of a stream that was tested at its end.
fn tested() -> Vec<Event> {
    let Event::Validated(test) = run::validated(3) else { unreachable!("a validation") };
    let of_stream = |event| match event {
        Event::StepDone(step) => Event::StepDone(StepDone { supply: Some(SUPPLY), ..step }),
        event => event,
    };
    run::small().into_iter().map(of_stream).chain([Event::Tested(test)]).collect()
}

#[test]
fn a_test_and_a_stream_are_shown() {
    let text = exposition(&tested()).to_text();
    let lines = [
        "plimsoll_test_step 3",
        "plimsoll_test_baseline{metric=\"PSNR (dB)\"} 28.25",
        "plimsoll_stream_workers 2",
        "plimsoll_stream_buffer_ratio 0.5",
        "plimsoll_stream_waited_seconds_total 0.75",
    ];
    for line in lines {
        assert!(text.contains(&format!("{line}\n")), "{line}: {text}");
    }
    let without = exposition(&run::small()).to_text();
    assert!(!without.contains("_test_") && !without.contains("_stream_"));
}

#[test]
fn every_series_is_documented() {
    let text = exposition(&tested()).to_text();
    for name in text.lines().filter_map(|it| it.strip_prefix("# HELP ")?.split(' ').next()) {
        assert!(PAGE.contains(&format!("`{name}`")), "docs/tools.md lacks {name}");
    }
}

#[test]
fn every_series_is_declared_once_and_named_by_the_conventions() {
    let text = exposition(&[run::long(600), tested()].concat()).to_text();
    let mut declared = BTreeSet::new();
    for line in text.lines().filter_map(|it| it.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        assert!(declared.insert(name), "{name} twice");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
    }
    for line in text.lines().filter(|it| !it.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let base = name.trim_end_matches("_sum").trim_end_matches("_count");
        assert!(declared.contains(name) || declared.contains(base), "{line}");
        assert!(line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(), "{line}");
    }
}

#[test]
fn what_a_log_names_ends_no_label() {
    let Event::RunStarted(start) = run::started(2) else { unreachable!("a start") };
    let start = RunStarted { job: "a\"} 1\nb\\".into(), ..start };
    let text = exposition(&[Event::RunStarted(start)]).to_text();
    assert!(text.contains(r#"{job="a\"} 1\nb\\",device="#), "{text}");
    assert!(!text.contains("plimsoll_loss"), "nothing is known of a step yet");
}
