//! Runs side by side, for terminals, browsers and programs.

use std::collections::BTreeMap;

use insta::assert_snapshot;
use plimsoll_monitor::{ComparedRun, Comparison, History, RunFacts};
use plimsoll_types::{Event, RunStarted, StepDone, Validated};
use serde_json::Value;

use crate::run;

fn compared(name: &str, events: &[Event], settings: &[(&str, &str)]) -> ComparedRun {
    let settings: BTreeMap<_, _> = settings.iter().map(|(key, it)| ((*key).to_owned(), (*it).to_owned())).collect();
    let seconds = events.iter().map(|it| if let Event::StepDone(it) = it { it.seconds } else { 0.0 }).sum();
    ComparedRun::new(name.to_owned(), History::of(events), RunFacts { seconds, ..RunFacts::default() }, settings)
}

/// Two runs of one job, the second twice as fast.
fn pair() -> [ComparedRun; 2] {
    let fast = |event| match event {
        Event::StepDone(it) => Event::StepDone(StepDone { seconds: it.seconds / 2.0, ..it }),
        other => other,
    };
    let other: Vec<Event> = run::long(600).into_iter().map(fast).collect();
    let settings = |steps| [("train.steps", steps), ("seed", "0"), ("device", "flex")];
    [compared("runs/a", &run::long(600), &settings("600")), compared("runs/b", &other, &settings("900"))]
}

/// The same run of another job.
fn other_job(events: Vec<Event>) -> Vec<Event> {
    let renamed = |event| match event {
        Event::RunStarted(it) => {
            Event::RunStarted(RunStarted { job: "text".into(), unit_of_length: "tokens".into(), ..it })
        }
        Event::Validated(it) => Event::Validated(Validated { metric_name: "perplexity".into(), ..it }),
        other => other,
    };
    events.into_iter().map(renamed).collect()
}

#[test]
fn runs_stand_beside_each_other_with_the_settings_that_differ() {
    let table = Comparison::new(&pair()).to_table(100);
    assert_snapshot!(table);
    assert!(table.contains("(×2.00)") && table.contains("train.steps") && !table.contains("seed"), "{table}");
}

#[test]
fn a_terminal_without_room_has_the_runs_below_each_other() {
    let [first, second] = pair();
    let runs = [first.clone(), second, ComparedRun { name: "runs/c".to_owned(), ..first }];
    let widest = |width: usize| {
        let table = Comparison::new(&runs).to_table(width);
        table.lines().map(|it| it.chars().count()).max().unwrap()
    };
    assert!(widest(80) <= 80);
    // One run needs its column, however narrow the terminal is.
    let table = Comparison::new(&runs).to_table(1);
    for name in ["runs/a", "runs/b", "runs/c"] {
        let lines: Vec<_> = table.lines().filter(|it| it.contains(name)).collect();
        assert!(!lines.is_empty() && lines.iter().all(|it| it.matches("runs/").count() == 1), "{table}");
    }
}

#[test]
fn of_several_jobs_only_what_is_comparable_is_compared_and_the_rest_is_named() {
    let runs = [compared("a", &run::long(100), &[]), compared("b", &other_job(run::long(100)), &[])];
    let comparison = Comparison::new(&runs);
    let table = comparison.to_table(120);
    for missing in ["samples per second", "training loss,", "validation:", "baseline"] {
        assert!(!table.lines().any(|it| it.starts_with(missing)), "{missing}: {table}");
    }
    for said in ["the runs are of several jobs: sr, text", "measure different metrics: PSNR (dB), perplexity", "peak"] {
        assert!(table.contains(said), "{said}: {table}");
    }
    let json: Value = serde_json::from_str(&comparison.to_json()).unwrap();
    assert_eq!(json["not_compared"].as_array().unwrap().len(), 3);
    assert!(!comparison.to_html(&runs).contains("Training loss"));
}

#[test]
fn json_has_numbers_in_the_units_of_their_names() {
    let json: Value = serde_json::from_str(&Comparison::new(&pair()).to_json()).unwrap();
    assert_eq!((&json["version"], &json["runs"][1]), (&Value::from(Comparison::VERSION), &Value::from("runs/b")));
    let figure = |key: &str| {
        let all = json["figures"].as_array().unwrap();
        all.iter().find(|it| it["key"] == key).unwrap_or_else(|| panic!("no {key}"))["values"].clone()
    };
    assert_eq!(figure("seconds"), serde_json::json!([150.0, 75.0]));
    assert_eq!(figure("steps"), serde_json::json!([600, 600]));
    assert!(figure("peak_bytes")[0].as_u64().unwrap() > 1 << 20);
    assert_eq!(json["settings"], serde_json::json!([{"key": "train.steps", "values": ["600", "900"]}]));
}

#[test]
fn a_page_has_names_as_text_and_needs_nothing_from_elsewhere() {
    let hostile = "</style><script>alert(1)</script>\"'<img src=x>";
    let [mut first, second] = pair();
    first.name = hostile.to_owned();
    first.notes.push(hostile.to_owned());
    first.settings.insert("train.steps".to_owned(), hostile.to_owned());
    let runs = [first, second];
    let page = Comparison::new(&runs).to_html(&runs);
    let addresses = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for outside in ["http", "href=", "@import", "url(", "<script", "<img"] {
        assert!(!addresses.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<svg").count(), 3);
    assert_eq!(page.matches("</style>").count(), 1);
}
