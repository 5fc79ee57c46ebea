use insta::assert_snapshot;
use plimsoll_monitor::{History, Plot, Restart, RunFacts, loss_comparison, memory_timeline, training_curves};
use plimsoll_types::{Bytes, Event, Fraction, Phase, StepDone};

use crate::run;

/// The texts of a picture with their positions, in the units of its view box.
pub(crate) fn texts(plot: &Plot) -> String {
    let attribute = |tag: &str, name: &str| -> String {
        tag.split(&format!(" {name}=\"")).nth(1).and_then(|it| it.split('"').next()).unwrap_or_default().to_owned()
    };
    let element = |it: &str| {
        let (tag, rest) = it.split_once('>').unwrap_or_default();
        let text = rest.split("</text>").next().unwrap_or_default().trim();
        format!("{:>5} {:>5} {:>6}  {text}\n", attribute(tag, "x"), attribute(tag, "y"), attribute(tag, "text-anchor"))
    };
    plot.svg.split("<text").skip(1).map(element).collect()
}

/// Holds that a picture is read as SVG, where PNG is drawn from it.
pub(crate) fn assert_drawn(plot: &Plot) {
    #[cfg(feature = "png")]
    assert!(resvg::tiny_skia::Pixmap::decode_png(&plot.png()).is_ok());
    assert!(plot.svg.ends_with("</svg>\n"));
}

#[test]
fn the_training_curves_say_what_they_show() {
    assert_snapshot!(texts(&training_curves(&History::of(&run::small()))));
}

#[test]
fn the_memory_timeline_says_what_it_shows() {
    assert_snapshot!(texts(&memory_timeline(&History::of(&run::small()), &RunFacts::default())));
}

#[test]
fn the_comparison_of_losses_says_what_it_shows() {
    let step = |n: u64| Event::StepDone(run::step(n, run::knobs(16, 4)));
    let calm: Vec<Event> = [run::started(6)].into_iter().chain((0..6).map(step)).collect();
    let failed = [2, 4].map(|n| run::failed(n, run::knobs(16, 4), None));
    let mut disturbed = [&calm[..], &failed].concat();
    if let Event::StepDone(done) = &mut disturbed[6] {
        done.loss *= 1.002;
    }
    assert_snapshot!(texts(&loss_comparison(&History::of(&calm), &History::of(&disturbed))));
    assert!(texts(&loss_comparison(&History::of(&calm), &History::of(&[]))).contains("no step in common"));
    assert!(texts(&loss_comparison(&History::of(&[]), &History::of(&[]))).contains("no step yet"));
}

#[test]
fn every_call_draws_the_same() {
    let plot = || memory_timeline(&History::of(&run::small()), &RunFacts::default());
    assert_eq!(plot(), plot());
}

#[test]
fn runs_with_hardly_anything_to_show_are_drawn() {
    let odd = StepDone {
        loss: f64::NAN,
        capacity: Bytes::ZERO,
        budget: Bytes::ZERO,
        peak: Bytes::ZERO,
        in_use: Bytes::ZERO,
        ..run::step(0, run::knobs(0, 1))
    };
    let runs = [
        vec![],
        vec![run::started(1)],
        vec![Event::StepDone(run::step(0, run::knobs(16, 4)))],
        vec![Event::StepDone(odd)],
        vec![run::validated(0)],
        vec![run::failed(0, run::knobs(16, 4), None)],
    ];
    for events in runs {
        for plot in
            [training_curves(&History::of(&events)), memory_timeline(&History::of(&events), &RunFacts::default())]
        {
            assert!(plot.svg.contains("step") && !plot.svg.contains("NaN"), "{events:?}");
            assert_drawn(&plot);
        }
    }
}

#[test]
fn a_long_run_stays_light_and_keeps_its_highest_peak() {
    let highest = StepDone { peak: Bytes::mib(400), ..run::step(7_777, run::knobs(16, 4)) };
    let mut events: Vec<Event> = (0..20_000).map(|it| Event::StepDone(run::step(it, run::knobs(16, 4)))).collect();
    events[7_777] = Event::StepDone(highest);
    let plot = memory_timeline(&History::of(&events), &RunFacts::default());
    assert!(plot.svg.len() < 200_000, "{} bytes", plot.svg.len());
    assert!(plot.svg.contains("400"), "the axis reaches the highest peak");
    assert!(training_curves(&History::of(&events)).svg.len() < 200_000);
}

#[test]
fn every_attempt_that_ran_out_of_memory_is_marked() {
    let strokes = |events: &[Event]| {
        let svg = memory_timeline(&History::of(events), &RunFacts::default()).svg;
        let of_failures = svg.lines().filter(|it| it.contains("stroke=\"#D55E00\""));
        of_failures.map(|it| it.matches('M').count()).sum::<usize>()
    };
    let step = Event::StepDone(run::step(0, run::knobs(16, 4)));
    let failed = run::failed(0, run::knobs(16, 4), None);
    assert_eq!(strokes(std::slice::from_ref(&step)), 0, "what does not occur has no place in the legend");
    assert_eq!(strokes(&[failed.clone(), failed, step]), 6, "a cross is two strokes, and one is in the legend");
}

#[test]
fn what_was_foreseen_and_what_went_wrong_is_drawn_where_it_occurs() {
    let facts = RunFacts::default();
    let legend = |events: &[Event], facts: &RunFacts| {
        let svg = memory_timeline(&History::of(events), facts).svg;
        let names = ["expected to upper bound", "above its bound", "out of memory", "restart", "steps undone"];
        names.into_iter().filter(|it| svg.contains(it)).collect::<Vec<_>>()
    };
    assert_eq!(legend(&run::small(), &facts), ["expected to upper bound", "out of memory"]);
    let mut events = run::long(120);
    events.push(crate::report::exceeded(4, Phase::Train));
    assert_eq!(legend(&events, &facts), ["expected to upper bound", "above its bound"]);
    let restarts = vec![Restart { step: 40, death: "SIGKILL".into(), undone_steps: 12 }];
    let undone = (40..52).map(|it| run::step(it, run::knobs(32, 4)).into()).collect();
    let facts = RunFacts { restarts, undone, ..facts };
    assert_eq!(legend(&run::long(120), &facts), ["expected to upper bound", "restart", "steps undone"]);
}

#[test]
fn the_start_is_enlarged_where_its_adjustments_would_be_lost() {
    let is_enlarged = |events: &[Event]| {
        memory_timeline(&History::of(events), &RunFacts::default()).svg.contains("the start, enlarged")
    };
    assert!(is_enlarged(&run::settled(400)));
    assert!(!is_enlarged(&run::settled(30)) && !is_enlarged(&run::long(600)) && !is_enlarged(&[]));
}

#[test]
fn what_there_is_is_beyond_the_picture_where_steps_stay_far_below() {
    let of = |capacity: Bytes| {
        let budget = capacity.scale(Fraction::try_new(0.9).expect("a share"));
        let step = |at| Event::StepDone(StepDone { capacity, budget, ..run::step(at, run::knobs(16, 4)) });
        memory_timeline(&History::of(&[2, 3].map(step)), &RunFacts::default()).svg
    };
    let (near, far) = (of(Bytes::mib(160)), of(Bytes::gib(22)));
    assert!(near.contains(">budget 144.00 MiB<") && near.contains(">150<"), "{near}");
    assert!(far.contains(">budget 19.80 GiB, beyond the picture<"), "{far}");
    assert!(far.contains(">memory of a step (MiB)<") && far.contains(">30<") && !far.contains(">50<"), "{far}");
}

#[test]
fn a_bound_beyond_all_memory_stays_inside_its_panel() {
    let far = StepDone { upper: Some(Bytes::gib(900)), ..run::step(3, run::knobs(16, 4)) };
    let events: Vec<Event> = [run::step(2, run::knobs(16, 4)), far].map(Event::StepDone).into();
    let svg = memory_timeline(&History::of(&events), &RunFacts::default()).svg;
    let paths = svg.lines().filter(|it| it.contains("stroke=\"#CC79A7\"")).filter_map(|it| it.split('"').nth(1));
    let heights = paths.flat_map(|it| it.trim_start_matches('M').split('L')).filter_map(|it| it.split(' ').nth(1));
    let heights: Vec<f64> = heights.map(|it| it.parse().unwrap()).collect();
    assert!(2 < heights.len() && heights.iter().all(|it| (80.0..800.0).contains(it)), "{heights:?}");
}
