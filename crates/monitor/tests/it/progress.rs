use insta::assert_snapshot;
use plimsoll_monitor::Progress;
use plimsoll_types::Bytes;

use crate::run;

fn progress() -> Progress {
    Progress {
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
        [160, 120, 100, 80, 60, 40, 20].map(|it| format!("{it:>3}: {}\n", progress().live_line(it))).into();
    assert_snapshot!(lines.concat());
}

#[test]
fn a_live_line_never_wraps() {
    for width in 0..200 {
        assert!(progress().live_line(width).chars().count() <= width, "{width}");
    }
}

#[test]
fn a_file_gets_plain_lines() {
    let young = Progress { metric: None, seconds_left: None, loss: f64::NAN, ..progress() };
    assert_snapshot!(format!("{}\n{}\n", progress().plain_line(), young.plain_line()));
}

#[test]
fn the_bar_stays_inside_its_frame() {
    let bars: Vec<String> = [0, 1, 43, 86, 172, 173, 400]
        .map(|it| Progress { peak: Bytes::mib(it), ..progress() }.live_line(50) + "\n")
        .into();
    assert_snapshot!(bars.concat());
}
