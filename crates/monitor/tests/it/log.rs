use insta::assert_snapshot;
use plimsoll_monitor::{Log, LogError, decode, decode_bytes, encode};
use plimsoll_types::{Event, NamedMetric, OLDEST_SCHEMA_VERSION, Phase, SCHEMA_VERSION, StepDone, Validated};

use crate::report::exceeded;
use crate::run;

fn lines(events: &[Event]) -> String {
    events.iter().map(encode).collect()
}

#[test]
fn an_event_is_a_line_of_json() {
    assert_snapshot!(lines(&run::small()));
}

#[test]
fn a_peak_above_its_bound_says_of_which_phase_it_is() {
    let (training, validation) = (exceeded(4, Phase::Train), exceeded(6, Phase::Infer));
    let line = |step, phase| {
        format!(
            "{{\"event\":\"bound_exceeded\",\"step\":{step},{phase}\"shape\":{{\"samples\":8,\"edges\":[32]}},\
             \"upper\":125829120,\"peak\":131072000}}\n"
        )
    };
    let lines_of_both = line(4, "\"phase\":\"train\",") + &line(6, "\"phase\":\"infer\",");
    assert_eq!(lines(&[training.clone(), validation]), lines_of_both);
    let without_phase = decode(&line(4, "")).unwrap().events;
    assert_eq!(without_phase, [training], "earlier logs have those of steps alone");
}

#[test]
fn a_log_reads_as_it_was_written() {
    let mut events = run::long(60);
    let Event::StepDone(step) = &mut events[2] else { panic!("{:?}", events[2]) };
    (step.loss, step.seconds) = (0.1 + 0.2, 1.0 / 3.0);
    assert_eq!(decode(&lines(&events)), Ok(Log { events, truncated: false }));
    assert_eq!(decode(""), Ok(Log::default()));
}

#[test]
fn an_unfinished_last_line_is_a_value() {
    let text = lines(&run::small());
    let n_events = run::small().len();
    for cut in 1..text.lines().last().unwrap().len() {
        let log = decode(&text[..text.len() - 1 - cut]).unwrap();
        assert!(log.truncated && log.events.len() == n_events - 1, "{cut} characters cut off");
    }
    assert_eq!(
        decode(text.trim_end()),
        Ok(Log { events: run::small(), truncated: false }),
        "only the newline is missing"
    );
}

#[test]
fn an_unfinished_line_in_the_middle_is_an_error() {
    let validated = encode(&run::validated(3));
    let error = decode(&format!("{}{}{validated}", encode(&run::started(6)), &validated[..20])).unwrap_err();
    assert!(matches!(error, LogError::BadLine { line: 2, .. }), "{error:?}");
    assert_snapshot!(error.to_string());
    assert_snapshot!(decode("{\"event\":\"epoch_done\"}\n").unwrap_err().to_string());
    assert_snapshot!(decode("{\"event\":\"run_paused\",\"step\":1}\n").unwrap_err().to_string());
}

#[test]
fn a_log_of_another_version_names_both() {
    let later = "{\"event\":\"run_started\",\"schema_version\":9,\"new\":true}\n";
    let same_fields =
        encode(&run::started(6)).replace(&format!("\"schema_version\":{SCHEMA_VERSION}"), "\"schema_version\":9");
    let error = decode(later).unwrap_err();
    assert_eq!(error, LogError::OtherSchema { line: 1, found: 9, supported: SCHEMA_VERSION });
    assert_eq!(decode(&same_fields), Err(error.clone()));
    assert_snapshot!(error.to_string());
}

#[test]
fn a_log_of_an_earlier_version_is_read_as_long_as_nothing_in_it_means_something_else() {
    let of = |version: u32| {
        let (now, then) = (format!("\"schema_version\":{SCHEMA_VERSION}"), format!("\"schema_version\":{version}"));
        decode(&encode(&run::started(6)).replace(&now, &then)).map(|log| log.events.len())
    };
    assert_eq!(of(OLDEST_SCHEMA_VERSION), Ok(1));
    assert!(OLDEST_SCHEMA_VERSION < SCHEMA_VERSION && of(OLDEST_SCHEMA_VERSION - 1).is_err());
}

#[test]
fn a_diverged_step_can_be_read_back() {
    let diverged =
        StepDone { loss: f64::NAN, gradient_norm: f64::INFINITY, committed: false, ..run::step(0, run::knobs(16, 4)) };
    let log = decode(&encode(&Event::StepDone(diverged.clone()))).unwrap();
    let Event::StepDone(read) = &log.events[0] else { panic!("{log:?}") };
    assert!(read.loss.is_nan() && read.gradient_norm.is_nan());
    assert_eq!(
        StepDone { loss: 1.0, gradient_norm: 1.0, ..read.clone() },
        StepDone { loss: 1.0, gradient_norm: 1.0, ..diverged }
    );
    assert_eq!(read.predicted, None, "an option that is null stays an option");
}

#[test]
fn a_validation_without_a_number_can_be_read_back() {
    let task = NamedMetric { metric_name: "MSE".into(), metric: f64::NAN, baseline: f64::INFINITY };
    let Event::Validated(validated) = run::validated(3) else { unreachable!() };
    let diverged = Validated { metric: f64::NEG_INFINITY, baseline: f64::NAN, tasks: vec![task], ..validated };
    let log = decode(&encode(&Event::Validated(diverged))).unwrap();
    let Event::Validated(Validated { metric, baseline, tasks, .. }) = &log.events[0] else { panic!("{log:?}") };
    let numbers = [*metric, *baseline, tasks[0].metric, tasks[0].baseline];
    assert!(numbers.iter().all(|it| it.is_nan()), "{numbers:?}");
}

#[test]
fn a_number_that_is_not_there_is_no_number_that_is_null() {
    let line = encode(&run::validated(3)).replace(",\"baseline\":28.25", "");
    let error = decode(&line).unwrap_err().to_string();
    assert!(error.contains("missing field `baseline`"), "{error}");
}

#[test]
fn a_log_may_be_cut_in_the_middle_of_a_character() {
    let whole = encode(&run::started(6)).replace("\"sr\"", "\"größer\"");
    let cut = &whole.as_bytes()[..=whole.find('ö').unwrap()];
    let both = [whole.as_bytes(), cut].concat();
    let log = decode_bytes(&both).unwrap();
    assert_eq!((log.events.len(), log.truncated), (1, true));
    let damaged = [whole.as_bytes(), b"{\xff}\n"].concat();
    assert!(matches!(decode_bytes(&damaged), Err(LogError::BadLine { line: 2, .. })));
}
