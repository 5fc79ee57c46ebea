use std::collections::BTreeSet;

use insta::assert_snapshot;
use plimsoll_monitor::{
    BatchMetrics, DroppedReport, EpochMetrics, Exposition, History, MatesKept, Outlook, RankReport, Restart, RunFacts,
    SettingChange, SourceReport, Table, TrainingReport,
};
use plimsoll_types::{
    BoundExceeded, Bytes, EpochDone, Event, MicroBatch, NamedSource, Phase, RunStarted, StepDone, StepShape, TaskStep,
};

use crate::exposition::SUPPLY;
use crate::{plan, run};

/// A micro-batch that reached more than it was to.
pub(crate) fn exceeded(step: u64, phase: Phase) -> Event {
    let (shape, upper, peak) = (StepShape::new(8, 32), Bytes::mib(120), Bytes::mib(125));
    Event::BoundExceeded(BoundExceeded { step, phase, shape, upper, peak })
}

fn report(events: &[Event]) -> TrainingReport {
    let facts = RunFacts {
        overhead_us_per_step: Some(84.25),
        loading_peak: Some(Bytes::mib(36)),
        warnings: vec!["the capacity was set by hand; the device has 62.70 GiB".into()],
        skipped_files: vec!["images/broken|name.png".into()],
        seconds: 65.4,
        out_dir: "runs/small".into(),
        ..RunFacts::default()
    };
    TrainingReport::new(&History::of(events), facts)
}

#[test]
fn a_report_says_when_steps_waited_for_their_samples() {
    let told = |seconds, part| {
        let facts = RunFacts { waiting: Some((seconds, part)), ..RunFacts::default() };
        let found = TrainingReport::new(&History::of(&run::small()), facts);
        assert_eq!(found.waiting_seconds, Some(seconds));
        found.findings.into_iter().find(|it| it.contains("waited for their samples"))
    };
    let text = told(402.0, 0.89).unwrap();
    assert!(text.contains("for 6m 42s, 89 % of their time") && text.contains("`data.workers`"), "{text}");
    // Little of a long run is not much, and seconds are soon over.
    assert_eq!((told(402.0, 0.1), told(2.0, 0.9)), (None, None));
}

#[test]
fn a_report_says_what_the_data_are_in_all_its_forms() {
    let line = "36 recordings; 3 shorter than `data.shortest` are skipped";
    let facts = RunFacts { data: vec![line.to_owned()], ..RunFacts::default() };
    let report = TrainingReport::new(&History::of(&run::small()), facts);
    assert!(report.to_markdown().contains(&format!("## Data\n\n* {line}\n")), "{}", report.to_markdown());
    assert!(report.to_json().contains(&format!("\"data\": [\n    \"{line}\"\n  ]")), "{}", report.to_json());
}

#[test]
fn a_report_has_the_facts_of_the_pictures_in_all_its_forms() {
    let steps = (0..6).map(|it| StepDone { supply: Some(SUPPLY), ..run::step(it, run::knobs(16, 4)) });
    let report =
        TrainingReport::new(&History::of(&steps.map(Event::StepDone).collect::<Vec<_>>()), RunFacts::default());
    let foreseen = report.foreseen.unwrap();
    assert_eq!((foreseen.steps, foreseen.mean_error, foreseen.above_bound), (5, 0.0, 0), "the first is not predicted");
    assert!(foreseen.mean_bound_share < foreseen.largest_bound_share && foreseen.largest_bound_share < 1.0);
    let supply = report.supply.unwrap();
    assert_eq!((supply.workers, supply.waited_seconds, supply.waited_share), (2, 0.75, 0.5));
    assert_eq!((supply.mean_ready_steps, supply.mean_buffer_fill, supply.most_buffered_samples), (3.0, 0.5, 40));
    let rate = &report.size_rates[0];
    assert_eq!(
        (rate.patch_size, rate.micro_batch_size, rate.samples, rate.samples_per_second),
        (16, 4, 80, Some(64.0))
    );
    let text = report.to_markdown();
    for row in [
        "| predicted peaks | of 5 steps, off by 0.0 % in the mean; peaks 9",
        "| look-ahead buffer | 50 % full in the mean; at most 40 samples and 2.00 MiB |",
        "| reading ahead | waited 0.8 s, 50 % of the steps, for 2 workers; 3.0 steps ready in the mean |",
        "| edge | micro-batch size | samples |\n|---:|---:|---:|\n| 16 | 4 | 80 (64.00 per second) |",
        "| edge (positions) | samples |\n|---:|---:|\n| 16 | 96 |",
    ] {
        assert!(text.contains(row), "{row}: {text}");
    }
    for row in ["predicted peaks", "look-ahead buffer"] {
        assert!(report.to_table(usize::MAX).contains(row), "{row}");
    }
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!((&json["edge_samples"][0]["edge"], &json["edge_samples"][0]["samples"]), (&16.into(), &96.into()));
}

/// The page of `docs/` that names the keys of a report.
const PAGE: &str = include_str!("../../../../docs/tools.md");

/// A report of which no key is left out because it has nothing to say.
fn with_every_key() -> TrainingReport {
    let (knobs, tasks) =
        (run::knobs(16, 4), vec![TaskStep { samples: 4, loss: None, gradient_norm: None, weight: 0.5 }]);
    let real_positions = Some(200);
    let step = StepDone { supply: Some(SUPPLY), tasks, real_positions, ..run::step(0, knobs) };
    let Event::Validated(test) = run::validated(3) else { unreachable!("a validation") };
    let mut events = vec![Event::StepDone(step), exceeded(2, Phase::Train), exceeded(2, Phase::Infer)];
    events.extend([run::small(), vec![Event::Tested(test)]].concat());
    let history = History::of(&events);
    let facts = RunFacts {
        waiting_for_ranks: Some((1.0, 0.1)),
        other_ranks: vec![RankReport::new(1, &history)],
        restarts: vec![Restart { step: 1, death: "SIGKILL".into(), undone_steps: 1 }],
        mates_kept: Some(MatesKept { kept: 0.031, reachable: Some(0.0625) }),
        data: vec!["36 recordings".into()],
        ..RunFacts::default()
    };
    let change = SettingChange { setting: String::new(), change: String::new(), figure: String::new() };
    TrainingReport {
        changes: vec![change],
        findings: vec![String::new()],
        steps_per_point: 2,
        planned_padding: Some(0.04),
        steady_budget_share_error: Some(0.00005),
        undone_steps: 1,
        undone_seconds: 0.25,
        n_axes: 2,
        sources: vec![SourceReport::default()],
        dropped: Some(DroppedReport { samples: 4, least: 4, most: 4 }),
        ..TrainingReport::new(&history, facts)
    }
}

#[test]
fn every_key_of_a_report_is_documented_and_no_other() {
    let json: serde_json::Value = serde_json::from_str(&with_every_key().to_json()).unwrap();
    let keys: BTreeSet<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    let section = PAGE.split("## The report in JSON\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|it| it.strip_prefix("| `")?.split(" | ").next());
    let named = rows.flat_map(|it| it.trim_end_matches('`').split("`, `")).collect::<BTreeSet<&str>>();
    assert_eq!(named, keys);
    // A field that a report leaves out where it has nothing to say must be in the one above; `usage` lies flat among the others.
    let fields =
        include_str!("../../src/summary.rs").lines().filter_map(|it| it.strip_prefix("    pub ")?.split_once(": "));
    for (field, _) in fields.filter(|it| !it.0.starts_with("const ") && it.0 != "usage") {
        assert!(keys.contains(field), "{field}");
    }
}

#[test]
fn a_report_says_how_many_batch_mates_meet_again() {
    for (reachable, told) in [
        (Some(0.0625), "3.1 % meet again in the next epoch; with so many batches, at most 6.2 % in the mean"),
        (None, "3.1 % of those in one row meet again in a row of the next epoch"),
    ] {
        let facts = RunFacts { mates_kept: Some(MatesKept { kept: 0.031, reachable }), ..RunFacts::default() };
        let report = TrainingReport::new(&History::of(&run::small()), facts);
        let row = format!("| batch mates | {told} |");
        assert!(report.to_markdown().contains(&row), "{}", report.to_markdown());
        assert!(report.to_json().contains("\"kept\": 0.031"), "{}", report.to_json());
        assert_eq!(report.to_json().contains("reachable"), reachable.is_some());
    }
}

#[test]
fn what_made_no_whole_step_is_told_of_each_epoch_and_of_all() {
    let run = |dropped: &[u64]| {
        let ended = (0..)
            .zip(dropped)
            .map(|(epoch, dropped)| Event::EpochDone(EpochDone { epoch, step: epoch, samples: 4, dropped: *dropped }));
        let step = |epoch| Event::StepDone(StepDone { epoch, ..run::step(epoch, run::knobs(16, 4)) });
        let events: Vec<_> =
            [run::started(2)].into_iter().chain((0..).map(step).zip(ended).flat_map(|(a, b)| [a, b])).collect();
        let (history, mut exposition) = (History::of(&events), Exposition::default());
        for it in &events {
            exposition.hear(it);
        }
        let report = TrainingReport::new(&history, RunFacts::default());
        let page = report.to_html(&history, &RunFacts::default(), "");
        (report, page, EpochMetrics::default().of(&events), exposition.to_text())
    };
    let (report, page, epochs, exposed) = run(&[3, 5, 3]);
    let told = "11: 3 to 5 of each epoch, which made no whole step";
    assert!(report.to_markdown().contains(&format!("| samples dropped | {told} |")), "{}", report.to_markdown());
    assert!(report.to_table(120).contains(told) && page.contains(told), "{page}");
    assert_eq!(report.dropped, Some(DroppedReport { samples: 11, least: 3, most: 5 }));
    assert_eq!(epochs.matches("\"dropped\":3").count(), 2, "{epochs}");
    assert!(exposed.contains("\nplimsoll_dropped_samples_total 11\n"), "{exposed}");
    let (report, ..) = run(&[4, 4]);
    assert!(report.to_markdown().contains("| samples dropped | 8: 4 of each epoch,"), "{}", report.to_markdown());
    let (report, _, epochs, _) = run(&[0, 0]);
    assert!(report.dropped.is_none() && !report.to_json().contains("dropped") && !epochs.contains("dropped"));
}

#[test]
fn a_report_says_what_came_from_each_source() {
    let source = |name: &str, n_samples| NamedSource { name: name.to_owned(), n_samples };
    let begun = |sources: Vec<NamedSource>| match run::started(2) {
        Event::RunStarted(start) => Event::RunStarted(RunStarted { sources, ..start }),
        other => other,
    };
    let step = |ids: &[u64]| StepDone {
        micro_batches: vec![MicroBatch::new(ids.to_vec(), 16)],
        ..run::step(0, run::knobs(16, 4))
    };
    let given_up = StepDone { committed: false, ..step(&[0, 1, 2]) };
    let sources = vec![source("books", 2), source("code", 0), source("chats", 40)];
    let events = [sources, Vec::new()]
        .map(|sources| [begun(sources), Event::StepDone(step(&[1, 0, 2, 41, 1])), Event::StepDone(given_up.clone())]);
    let report = report(&events[0]);
    let row = "| sources | books 3 (60 %), code 0 (0.0 %), chats 2 (40 %) |";
    assert!(report.to_markdown().contains(row), "{}", report.to_markdown());
    assert_eq!(
        report.sources.iter().map(|it| (it.samples, it.share)).collect::<Vec<_>>(),
        [(3, Some(0.6)), (0, Some(0.0)), (2, Some(0.4))]
    );
    assert!(!self::report(&events[1]).to_json().contains("sources"));
}

#[test]
fn a_report_is_json() {
    assert_snapshot!(report(&run::small()).to_json());
}

#[test]
fn a_report_is_markdown() {
    assert_snapshot!(report(&run::small()).to_markdown());
}

#[test]
fn a_report_is_a_table() {
    assert_snapshot!(report(&run::small()).to_table(usize::MAX));
}

#[test]
fn a_run_that_did_nothing_reports_nulls() {
    let report = TrainingReport::new(&History::of(&[]), RunFacts::default());
    assert_snapshot!(report.to_json());
    assert_snapshot!(report.to_markdown() + &report.to_table(usize::MAX));
}

#[test]
fn peaks_above_their_bounds_are_counted_and_those_of_validations_named() {
    let row = |events: &[Event]| {
        let markdown = report(events).to_markdown();
        markdown.lines().find(|it| it.contains("above their bound")).map(str::to_owned)
    };
    assert_eq!(row(&run::small()), None);
    let mut events = run::small();
    events.push(exceeded(4, Phase::Train));
    assert_eq!(row(&events).as_deref(), Some("| peaks above their bound | 1 |"));
    events.push(exceeded(6, Phase::Infer));
    assert_eq!(row(&events).as_deref(), Some("| peaks above their bound | 2, 1 of them in validations |"));
    assert!(report(&events).to_table(usize::MAX).contains("2, 1 of them in validations"));
    let json = report(&events).to_json();
    assert!(
        json.contains("\"bounds_exceeded\": 2") && json.contains("\"bounds_exceeded_in_validations\": 1"),
        "{json}"
    );
}

#[test]
fn an_adjustment_is_a_row_however_many_parameters_it_changes() {
    let text = report(&run::small()).to_markdown();
    let table = text.split("## Adjustments").nth(1).unwrap();
    let rows: Vec<_> = table.lines().filter(|it| it.starts_with("| 1 |")).collect();
    assert!(text.contains("| adjustments | 1: 1 up, 0 down |"), "{text}");
    assert_eq!(
        rows,
        ["| 1 | patch_size, micro_batch_size | 16, 4 | 32, 8 | at most 120.00 MiB needed, 172.80 MiB allowed |"]
    );
}

#[test]
fn a_step_is_a_row() {
    assert_snapshot!(BatchMetrics::default().of(&run::small()));
}

#[test]
fn an_epoch_is_a_row() {
    assert_snapshot!(EpochMetrics::default().of(&run::long(250)));
}

#[test]
fn the_steady_state_begins_after_the_last_adjustment() {
    let report = report(&run::long(600));
    let shares: Vec<f64> =
        (420..600).map(|it| run::step(it, run::knobs(48, 7)).peak.share_of(run::MEMORY.budget)).collect();
    let (low, high) = shares.iter().fold((1.0f64, 0.0f64), |(low, high), it| (low.min(*it), high.max(*it)));
    assert!(report.steady_budget_share.is_some_and(|it| low < it && it < high), "{report:?}");
    assert_eq!((report.adjustments, report.oom_recoveries), (4, 1));
}

#[test]
fn attempts_that_ran_out_of_memory_are_no_peak() {
    let report = report(&run::small());
    assert!(report.peak_bytes < Some(Bytes::mib(192)), "{:?}", report.peak_bytes);
    assert_eq!((report.steps, report.steps_given_up, report.samples_seen), (5, 1, 80));
}

#[test]
fn a_plan_is_a_table() {
    assert_snapshot!(plan::small().to_table());
}

#[test]
fn an_outlook_is_a_table() {
    let outlook = Outlook {
        samples: 9000,
        task_shares: vec![("single".into(), 0.5), ("pair".into(), 0.3), ("subject".into(), 0.2)],
        epochs: 2.5,
        shape: StepShape::new(8, 64),
        is_packed: false,
        accumulation_steps: 4,
        batches: 2813,
        steps: 704,
        batch_memory: Some(Bytes::mib(96)),
        peak: Some(Bytes::mib(160)),
        seconds: Some(1408.0),
    };
    let unknown = Outlook {
        task_shares: Vec::new(),
        epochs: 3.0,
        is_packed: true,
        batch_memory: None,
        peak: None,
        seconds: None,
        ..outlook.clone()
    };
    assert_snapshot!(outlook.to_table(usize::MAX) + "\n" + &unknown.to_table(usize::MAX));
}

#[test]
fn padding_and_real_work_are_told_where_the_log_says_them() {
    let padded = |real| {
        let step = |n| StepDone { real_positions: Some(real), seconds: 0.5, ..run::step(n, run::knobs(64, 4)) };
        let events: Vec<Event> = (0..4).map(|it| Event::StepDone(step(it))).collect();
        (report(&events), BatchMetrics::default().of(&events))
    };
    // A step has 16 samples of 64 positions.
    let (found, metrics) = padded(768);
    let work = found.work.unwrap();
    assert_eq!((work.padded_positions, work.real_positions, work.padding), (4096, 3072, 0.25));
    assert!(
        found.to_table(usize::MAX).contains("3072 positions (1536 per second), and 25 % padding"),
        "{}",
        found.to_table(usize::MAX)
    );
    assert!(found.findings.iter().any(|it| it.contains("25 % of the positions") && it.contains("edges enough")));
    assert!(metrics.contains("\"real_positions\":768,\"padding\":0.25,\"real_positions_per_second\":1536.0"));
    assert!(!padded(1000).0.findings.iter().any(|it| it.contains("padding")), "2.3 % is little");
    assert_eq!(report(&run::small()).work, None, "patches have no padding");
}

#[test]
fn the_work_of_all_ranks_is_summed() {
    let of_rank = |real, seconds| {
        let step = |n| StepDone { real_positions: Some(real), seconds, ..run::step(n, run::knobs(64, 4)) };
        History::of(&(0..4).map(|it| Event::StepDone(step(it))).collect::<Vec<_>>())
    };
    let (first, other) = (of_rank(1000, 0.5), RankReport::new(1, &of_rank(536, 0.25)));
    let facts = RunFacts { other_ranks: vec![other.clone()], ..RunFacts::default() };
    let work = TrainingReport::new(&first, facts).work.unwrap();
    assert_eq!((work.padded_positions, work.real_positions, work.padding), (8192, 6144, 0.25));
    assert_eq!(work.real_positions_per_second, Some(3072.0), "they ran side by side");
    let unknown = RunFacts { other_ranks: vec![RankReport { work: None, ..other }], ..RunFacts::default() };
    assert_eq!(TrainingReport::new(&first, unknown).work, None);
    assert_eq!(TrainingReport::new(&of_rank(1025, 0.5), RunFacts::default()).work, None, "of another rank too");
}
