use insta::assert_snapshot;
use plimsoll_monitor::{Progress, Validating};
use plimsoll_types::Bytes;

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

#[test]
fn a_file_gets_plain_lines() {
    let young = Progress { metric: None, seconds_left: None, loss: f64::NAN, ..progress() };
    assert_snapshot!(format!("{}\n{}\n", progress().plain_line(), young.plain_line()));
}

#[test]
fn samples_that_have_lengths_are_shown_by_the_longest() {
    let unit_of_length = "frames".into();
    let shown = Progress { largest: Some(48.into()), unit_of_length, ..progress() }.plain_line();
    assert!(shown.contains("batch 8 of 48 frames") && !shown.contains("patch"), "{shown}");
}

#[test]
fn a_validation_shows_how_far_it_is_and_its_metric_is_told_from_the_loss() {
    let validating = Some(Validating { n_done: 120, n: 3400, seconds_left: Some(64.0) });
    let shown = Progress { validating, ..progress() }.plain_line();
    assert!(shown.starts_with("step 120/600 · epoch 3 · validating: 120 of 3400, 1m 04s left"), "{shown}");
    let metric_name = "loss (nats/token)".into();
    let shown = Progress { metric_name, metric: Some(3.25), loss: 2.5, ..progress() }.plain_line();
    assert!(shown.contains("training loss 2.500 · held out: loss (nats/token) 3.250 (at 100)"), "{shown}");
}
