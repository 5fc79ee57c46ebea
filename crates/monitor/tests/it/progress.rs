use insta::assert_snapshot;
use plimsoll_monitor::{Progress, Validating};
use plimsoll_types::Bytes;

use crate::run;

fn progress() -> Progress {
    Progress {
        has_lengths: false,
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
        seconds_left: Some(65.0),
    }
}

#[test]
fn a_narrow_terminal_shows_what_matters_most() {
    let lines: Vec<String> =
        [100, 80, 60, 40, 20].map(|it| format!("{it:>3}: {}\n", progress().panel(it).join("\n     "))).into();
    assert_snapshot!(lines.concat());
}

#[test]
fn a_panel_never_wraps_and_fits_whole_into_eighty_characters() {
    for width in 0..200 {
        assert!(progress().panel(width).iter().all(|it| it.chars().count() <= width), "{width}");
    }
    assert_eq!(progress().panel(80), progress().panel(200));
}

#[test]
fn a_file_gets_plain_lines() {
    let young = Progress { metric: None, seconds_left: None, loss: f64::NAN, ..progress() };
    assert_snapshot!(format!("{}\n{}\n", progress().plain_line(), young.plain_line()));
}

#[test]
fn the_bar_stays_inside_its_frame() {
    let bars: Vec<String> = [0, 1, 43, 86, 172, 173, 400]
        .map(|it| Progress { peak: Bytes::mib(it), ..progress() }.panel(50)[1].clone() + "\n")
        .into();
    assert_snapshot!(bars.concat());
}

#[test]
fn samples_that_have_lengths_are_shown_by_the_longest() {
    let unit_of_length = "frames".into();
    let shown = Progress { has_lengths: true, unit_of_length, ..progress() }.panel(200).join("\n");
    assert!(shown.contains("batch 8 of 48 frames") && !shown.contains("patch"), "{shown}");
}

#[test]
fn a_validation_shows_how_far_it_is_and_its_metric_is_told_from_the_loss() {
    let validating = Some(Validating { n_done: 120, n: 3400, seconds_left: Some(64.0) });
    let shown = Progress { validating, ..progress() }.panel(80);
    assert_eq!(shown[0], "step 120/600 · validating: 120 of 3400, 1m 04s left");
    let metric_name = "loss (nats/token)".into();
    let shown = Progress { metric_name, metric: Some(3.25), loss: 2.5, ..progress() }.panel(80);
    assert_eq!(shown[0], "step 120/600 · training loss 2.500 · held out: loss (nats/token) 3.250 (at 100)");
}
