use insta::assert_snapshot;
use plimsoll_monitor::{Colors, Progress, Validating, View};
use plimsoll_types::{Bytes, Event, StepDone, SupplyStep};

use crate::run;

pub(crate) fn progress() -> Progress {
    Progress {
        largest: None,
        unit_of_length: "pixels".into(),
        metric_step: 100,
        validating: None,
        step: 120,
        n_steps: 600,
        epoch: 3,
        loss: 0.012_345,
        metric_name: "PSNR (dB)".into(),
        metric: Some(31.25),
        knobs: run::knobs(48, 8),
        samples_per_second: 412.34,
        peak: Bytes::mib(150),
        budget: Bytes(181_193_932),
        supply: None,
        seconds_left: Some(65.0),
    }
}

/// What a file gets of a run of which no step was heard.
fn plain_line(progress: &Progress) -> String {
    View::default().plain_line(progress)
}

#[test]
fn a_file_gets_plain_lines() {
    let young = Progress { metric: None, seconds_left: None, loss: f64::NAN, ..progress() };
    assert_snapshot!(format!("{}\n{}\n", plain_line(&progress()), plain_line(&young)));
}

#[test]
fn samples_that_have_lengths_are_shown_by_the_longest() {
    let unit_of_length = "frames".into();
    let shown = plain_line(&Progress { largest: Some(48.into()), unit_of_length, ..progress() });
    assert!(shown.contains("batch 8 of 48 frames") && !shown.contains("patch"), "{shown}");
}

#[test]
fn a_validation_shows_how_far_it_is_and_its_metric_is_told_from_the_loss() {
    let validating = Some(Validating { n_done: 120, n: 3400, seconds_left: Some(64.0) });
    let shown = plain_line(&Progress { validating, ..progress() });
    assert!(shown.starts_with("step 120/600 · epoch 3 · validating: 120 of 3400, 1m 04s left"), "{shown}");
    let metric_name = "loss (nats/token)".into();
    let shown = plain_line(&Progress { metric_name, metric: Some(3.25), loss: 2.5, ..progress() });
    assert!(shown.contains("training loss 2.500 · held out: loss (nats/token) 3.250 (at 100)"), "{shown}");
}

#[test]
fn padded_samples_are_told_by_what_of_them_is_real_and_a_stream_by_its_buffer() {
    let mut view = View::default();
    let supply = SupplyStep { buffer_fill: 0.43, ..SupplyStep::default() };
    let step = StepDone { real_positions: Some(768), supply: Some(supply), ..run::step(0, run::knobs(64, 4)) };
    view.hear(&Event::StepDone(step));
    let progress = Progress { unit_of_length: "tokens".into(), ..progress() };
    let line = view.plain_line(&progress);
    assert!(line.contains(" · 412.3 samples/s · 3072 tokens/s · "), "768 in a quarter of a second: {line}");
    assert!(line.ends_with(" · padding 25 % · buffer 43 % full"), "{line}");
    let shown = view.lines(&progress, 120, Colors::Off).join("\n");
    assert!(shown.contains("1m 05s left · 3072 tokens/s · 412.3 samples/s"), "{shown}");
    assert!(shown.contains("padding 25 % · buffer 43 % full"), "{shown}");
}
