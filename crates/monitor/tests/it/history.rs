use plimsoll_monitor::{Decoder, History, RunFacts, TrainingReport, encode, memory_timeline, step_curves};
use plimsoll_types::{Bytes, Event, MoveReason, StepDone};

use crate::run;

/// A step whose samples are padded to a third.
fn step(n: u64) -> StepDone {
    let step = run::step(n, run::knobs(16, 4));
    let real = step.padded_positions() * 2 / 3;
    StepDone { real_positions: Some(real), ..step }
}

/// A run of so many steps, with an adjustment, a failure that it survived and one step far above all others.
fn long(n_steps: u64) -> History {
    let mut history = History::default();
    history.hear(&run::started(n_steps));
    for n in 0..n_steps {
        if n == 777 {
            history.hear(&run::failed(n, run::knobs(16, 4), Some(Bytes::mib(180))));
        }
        let done = StepDone { peak: if n == n_steps / 3 { Bytes::mib(900) } else { step(n).peak }, ..step(n) };
        history.hear(&Event::StepDone(done));
        if n == 99 {
            let reason = MoveReason::Certified { upper: Bytes::mib(120), limit: run::MEMORY.budget };
            history.hear(&run::moved(n, run::knobs(16, 4), run::knobs(16, 4), reason));
        }
        if n % 20 == 19 {
            history.hear(&run::validated(n + 1));
        }
    }
    history
}

#[test]
fn a_long_run_is_summed_up_exactly() {
    let n = 30_000;
    let report = TrainingReport::new(&long(n), RunFacts::default());
    let steps: Vec<StepDone> = (0..n).map(step).collect();
    assert_eq!((report.steps, report.samples_seen, report.oom_recoveries, report.adjustments), (n, 16 * n, 1, 1));
    assert_eq!(report.peak_bytes, Some(Bytes::mib(900)));
    let sum: f64 =
        steps.iter().map(|it| it.peak.as_f64()).sum::<f64>() + Bytes::mib(900).as_f64() - step(n / 3).peak.as_f64();
    let average = report.usage.average_peak_bytes.unwrap().as_f64();
    assert!((average / (sum / n as f64) - 1.0).abs() < 1e-7, "{average}");
    let work = report.work.unwrap();
    assert_eq!(work.padded_positions, steps.iter().map(StepDone::padded_positions).sum::<u64>());
    assert_eq!(work.real_positions, steps.iter().filter_map(|it| it.real_positions).sum::<u64>());
    let mut shares: Vec<f64> = steps[100..].iter().map(|it| it.peak.share_of(it.budget)).collect();
    shares.sort_by(f64::total_cmp);
    let (said, error) = (report.steady_budget_share.unwrap(), report.steady_budget_share_error.unwrap());
    assert!((said - shares[shares.len() / 2]).abs() <= 1.1 * error && error < 1e-3, "{said}");
}

#[test]
fn a_picture_of_a_long_run_says_for_how_many_steps_a_point_stands_and_keeps_the_highest() {
    let (history, facts) = (long(30_000), RunFacts::default());
    let report = TrainingReport::new(&history, facts.clone());
    // Groups of eight steps, ten points of which are two that are drawn.
    assert_eq!(report.steps_per_point, 80);
    for svg in [memory_timeline(&history, &facts).svg, step_curves(&history).svg] {
        assert!(svg.contains("lowest and highest of up to 80 steps each"));
        assert!(svg.len() < 400_000, "{} bytes", svg.len());
    }
    assert!(memory_timeline(&history, &facts).svg.contains(">800<"), "the axis reaches the highest peak");
    assert!(report.to_html(&history, &facts, "").contains("Of up to 80 steps each"));
    assert!(report.to_json().contains("\"steps_per_point\": 80"));
    // All of these are kept, and of six beside each other two are drawn.
    assert_eq!(TrainingReport::new(&long(4000), facts.clone()).steps_per_point, 6);
    let short = long(1500);
    assert!(!TrainingReport::new(&short, facts.clone()).to_json().contains("steps_per_point"));
    assert!(!memory_timeline(&short, &facts).svg.contains("of up to"));
}

#[test]
fn the_start_of_a_long_run_is_enlarged_step_by_step() {
    let spike = |n: u64| if n == 3 { Bytes::mib(170) } else { run::step(n, run::knobs(16, 4)).peak };
    let mut events = run::settled(50_000);
    for event in &mut events {
        if let Event::StepDone(it) = event {
            it.peak = spike(it.step);
        }
    }
    let svg = memory_timeline(&History::of(&events), &RunFacts::default()).svg;
    assert!(svg.contains("the start, enlarged"));
    // The peaks of the start: a line of a point for each of its steps, the first of the two that have its colour.
    let paths: Vec<_> = svg.lines().filter(|it| it.contains("stroke=\"#0072B2\"") && it.contains("d=\"M")).collect();
    let n_points = paths.iter().map(|it| it.matches('L').count()).find(|n| 1 < *n).unwrap();
    assert_eq!(n_points, 14, "fifteen steps are shown up to one and a half times the last adjustment");
}

#[test]
fn a_log_is_read_line_by_line() {
    let mut decoder = Decoder::default();
    let line = encode(&run::validated(3));
    assert_eq!(decoder.line(line.as_bytes()), Ok(Some(run::validated(3))));
    assert_eq!((decoder.line(b"\n"), decoder.truncated), (Ok(None), false));
    assert!(decoder.line(b"{}\n").unwrap_err().to_string().contains("line 3"));
    assert_eq!((decoder.line(&line.as_bytes()[..9]), decoder.truncated), (Ok(None), true));
}
