//! What Prometheus scrapes.

use std::collections::BTreeSet;

use insta::assert_snapshot;
use plimsoll_monitor::Exposition;
use plimsoll_types::{Event, RunStarted};

use crate::run;

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

#[test]
fn every_series_is_documented() {
    let text = exposition(&run::small()).to_text();
    for name in text.lines().filter_map(|it| it.strip_prefix("# HELP ")?.split(' ').next()) {
        assert!(PAGE.contains(&format!("`{name}`")), "docs/tools.md lacks {name}");
    }
}

#[test]
fn every_series_is_declared_once_and_named_by_the_conventions() {
    let text = exposition(&run::long(600)).to_text();
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
