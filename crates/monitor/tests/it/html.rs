//! The page of a run, which must be whole, safe and light.

use plimsoll_monitor::{
    History, RankReport, Restart, RunFacts, TrainingReport, decode, memory_timeline, training_curves,
};
use plimsoll_types::{
    Attempt, BoundExceeded, Bytes, CheckpointSaved, Event, MoveReason, Phase, RunStarted, Stage, StepDone, StepFailed,
    StepShape, TaskStep, Validated,
};

use crate::plots::assert_drawn;
use crate::run;

fn page(events: &[Event], facts: &RunFacts) -> String {
    TrainingReport::new(&History::of(events), facts.clone()).to_html(
        &History::of(events),
        facts,
        "[train]\nsteps = 6 # <few> & fast\n",
    )
}

#[test]
fn a_page_needs_nothing_from_elsewhere_and_is_whole() {
    let page = page(&run::small(), &RunFacts::default());
    // A name space is no address that is opened.
    let addresses = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for outside in ["http", "src=", "href=", "@import", "url(", "<script"] {
        assert!(!addresses.contains(outside), "{outside}");
    }
    for element in ["html", "body", "style", "dl", "ol", "svg", "figure", "div", "table", "pre", "h2"] {
        let n = |tag: &str| page.matches(tag).count();
        let opened = n(&format!("<{element}>")) + n(&format!("<{element} "));
        assert_eq!(opened, n(&format!("</{element}>")), "{element}");
    }
    let open = page.split("<style>").nth(1).and_then(|it| it.split("</style>").next()).unwrap();
    assert_eq!(open.matches('{').count(), open.matches('}').count());
}

#[test]
fn the_verdict_comes_first_and_then_its_figures() {
    let page = page(&run::long(600), &RunFacts { waiting: Some((60.0, 0.4)), ..RunFacts::default() });
    let at = |part: &str| page.find(part).unwrap_or_else(|| panic!("{part} is missing"));
    let parts = ["class=\"verdict\"", "budget used", "What would help most", "<code>data.workers</code>", "<svg"];
    assert!(parts.map(at).is_sorted(), "{:?}", parts.map(at));
    assert!(page.contains("(steps waited 1m 00s for samples, 40 % of their time)"));
}

/// What would end an element, an attribute or a style, call a script, and turn the text after it around.
const HOSTILE: &str = "</style></svg><script>alert(1)</script>\"'`<img src=x onerror=alert(2)> & \u{202E}\u{FFFE}\u{1}";

#[test]
fn what_a_log_names_is_text_and_no_markup() {
    let Event::RunStarted(start) = run::started(6) else { unreachable!("a start") };
    let Event::Validated(validated) = run::validated(3) else { unreachable!("a validation") };
    let name = || HOSTILE.to_owned();
    let start = RunStarted { job: name(), device: name(), tasks: vec![name()], unit_of_length: name(), ..start };
    let tasks = vec![TaskStep { samples: 4, loss: Some(1.0), gradient_norm: None, weight: 1.0 }];
    let step = StepDone { tasks, ..run::step(0, run::knobs(16, 4)) };
    let events = [
        Event::RunStarted(start),
        Event::StepDone(step),
        Event::CheckpointSaved(CheckpointSaved { step: 3, path: name() }),
        Event::Validated(Validated { metric_name: name(), ..validated }),
    ];
    let facts = RunFacts {
        warnings: vec![name(), "`<b>` & more".into()],
        data: vec![name()],
        skipped_files: vec![name()],
        other_ranks: vec![RankReport { device: Some(name()), ..RankReport::new(1, &History::of(&events)) }],
        restarts: vec![Restart { step: 1, death: name(), undone_steps: 1 }],
        out_dir: name(),
        ..RunFacts::default()
    };
    let page = page(&events, &facts);
    for markup in ["<script", "<img", "<b>", "\u{202E}", "\u{FFFE}", "\u{1}"] {
        assert!(!page.contains(markup), "{markup:?}");
    }
    assert_eq!((page.matches("</style>").count(), page.matches("<svg").count()), (1, page.matches("</svg>").count()));
    assert!(page.contains("<code>&lt;b&gt;</code> &amp; more") && page.contains("# &lt;few&gt; &amp; fast"));
    // Pictures are read as XML, which forgives less.
    assert_drawn(&memory_timeline(&History::of(&events), &facts));
    assert_drawn(&training_curves(&History::of(&events)));
}

#[test]
fn a_run_that_died_in_its_first_step_says_so() {
    let attempt = Attempt::new(StepShape::new(4, 16), Bytes::mib(24));
    let died =
        StepFailed { step: 0, rung: run::knobs(16, 4), attempt, capacity: run::MEMORY.capacity, stage: Stage::Process };
    let events = [run::started(6), Event::StepFailed(died)];
    let death = Restart { step: 0, death: "killed by SIGKILL".into(), undone_steps: 0 };
    let page = page(&events, &RunFacts { restarts: vec![death], ..RunFacts::default() });
    let said = ["and no step was done.", "1 death<", "killed by SIGKILL", "the process ended with it", "no step yet"];
    for it in said {
        assert!(page.contains(it), "{it}");
    }
    // Nobody took it up again.
    assert!(self::page(&events, &RunFacts::default()).contains("1 death<"));
}

#[test]
fn a_page_of_several_ranks_has_a_row_of_each() {
    let events = run::small();
    let other = RankReport { failures: 1, ..RankReport::new(1, &History::of(&events)) };
    let page = page(&events, &RunFacts { other_ranks: vec![other], ..RunFacts::default() });
    assert!(page.contains("are of rank 0 of 2;") && !self::page(&events, &RunFacts::default()).contains("rank 0"));
    assert!(page.contains("<td>rank 0</td>") && page.contains("<td>rank 1</td>") && page.contains(", 1 failure<"));
}

#[test]
fn rates_of_another_patch_are_told_apart() {
    let steps = |knobs| (0..4).map(move |it| Event::StepDone(run::step(it, knobs)));
    let two: Vec<Event> = steps(run::knobs(16, 4)).chain(steps(run::knobs(32, 4))).collect();
    let other = "of other patch sizes";
    assert!(page(&two, &RunFacts::default()).contains(other));
    assert!(!page(&two[..4], &RunFacts::default()).contains(other));
}

#[test]
fn every_colour_that_is_read_on_white_has_one_for_a_dark_page() {
    let page = page(&run::small(), &RunFacts::default());
    let dark = page.split("prefers-color-scheme: dark").nth(1).unwrap();
    let rules = dark.split("</style>").next().unwrap();
    for color in ["#222222", "#696969", "#E4E4E4", "#0072B2"] {
        assert!(page.contains(&format!("=\"{color}\"")), "{color} is used");
        assert!(rules.contains(&format!("svg [fill=\"{color}\"]")), "{color}");
    }
}

#[test]
fn a_page_of_a_long_run_stays_light() {
    let facts = RunFacts {
        restarts: (1..40).map(|it| Restart { step: 400 * it, death: "SIGKILL".into(), undone_steps: 30 }).collect(),
        undone: (0..16_000).filter(|it| it % 400 < 30).map(|it| run::step(it, run::knobs(16, 4)).into()).collect(),
        ..RunFacts::default()
    };
    let page = page(&run::long(20_000), &facts);
    assert!(page.len() < 2 << 20, "{} bytes", page.len());
}

/// A run of so many steps of which each runs out of memory, is halved, and changes the sizes.
fn restless(n_steps: u64) -> Vec<Event> {
    let rung = |n: u64| run::knobs(16, 4 + (n % 2) as u32);
    let of_step = |n: u64| {
        let failed = run::failed(n, rung(n), Some(Bytes::mib(200 + n % 97)));
        let reason = MoveReason::OutOfMemory { count: 1 };
        [failed, Event::StepDone(run::step(n, rung(n))), run::moved(n, rung(n), rung(n + 1), reason)]
    };
    std::iter::once(run::started(n_steps)).chain((0..n_steps).flat_map(of_step)).collect()
}

#[test]
fn a_page_stays_light_whatever_is_adjusted_and_fails() {
    let events = restless(100_000);
    let above = |step| BoundExceeded {
        step,
        phase: Phase::Train,
        shape: StepShape::new(4, 16),
        upper: Bytes::mib(60),
        peak: Bytes::mib(60 + step % 53),
    };
    let events: Vec<Event> = events.into_iter().chain((0..100_000).map(|it| Event::BoundExceeded(above(it)))).collect();
    let files = (0..100_000).map(|it| format!("image-{it}.png: it is cut short"));
    let facts = RunFacts { skipped_files: files.collect(), ..RunFacts::default() };
    let page = page(&events, &facts);
    assert!(page.len() < 2 << 20, "{} bytes", page.len());
    for shown in ["<td>0</td>", "<td>99999</td>", "image-99999.png", "99800 more in training_report.json"] {
        assert!(page.contains(shown), "{shown}");
    }
    assert!(!page.contains("image-50000.png"));
    let report = TrainingReport::new(&History::of(&events), facts);
    assert_eq!((report.decisions.len(), report.skipped_files.len()), (100_000, 100_000));
    assert!(report.to_markdown().len() < 1 << 18 && report.to_markdown().contains("* 99800 more in"));
}

#[test]
fn runs_with_hardly_anything_to_show_have_a_page() {
    let odd = StepDone { loss: f64::NAN, gradient_norm: f64::NAN, seconds: 0.0, ..run::step(0, run::knobs(0, 1)) };
    for events in [vec![], vec![run::started(1)], vec![Event::StepDone(odd)], vec![run::validated(0)]] {
        let page = page(&events, &RunFacts::default());
        assert!(page.ends_with("</html>\n") && !page.contains("=\"NaN") && !page.contains("inf\""), "{events:?}");
    }
}

#[test]
fn the_logs_of_every_policy_have_a_page() {
    let logs = [
        include_str!("../../../../fixtures/logs/bucketed.jsonl"),
        include_str!("../../../../fixtures/logs/certified.jsonl"),
        include_str!("../../../../fixtures/logs/fixed.jsonl"),
        include_str!("../../../../fixtures/logs/stepwise.jsonl"),
    ];
    for log in logs {
        let page = page(&decode(log).unwrap().events, &RunFacts::default());
        assert!(page.contains("expected to upper bound") && page.contains("1 out of memory"));
    }
}

#[test]
fn a_page_shows_padding_where_the_log_says_it() {
    let step = |n| StepDone { real_positions: Some(768), ..run::step(n, run::knobs(64, 4)) };
    let events: Vec<Event> = (0..9).map(|it| Event::StepDone(step(it))).collect();
    let padded = page(&events, &RunFacts::default());
    assert!(padded.contains("padding (% of the positions)") && padded.contains("<dd>25 %</dd>"));
    assert!(padded.contains("<dd>3072 positions/s</dd>"), "768 in a quarter of a second");
    assert!(!page(&run::small(), &RunFacts::default()).contains("padding (%"));
}
