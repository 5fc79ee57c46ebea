use insta::assert_snapshot;
use plimsoll_monitor::{Colors, Drawn, Progress, Supply, Validating, View};
use plimsoll_types::{Bytes, Event, MoveReason, RunStarted, StepDone, TaskStep};

use crate::progress::progress;
use crate::run;

/// A run of two tasks whose samples are padded, with more adjustments than are shown.
fn view() -> View {
    let mut view = View::default();
    let Event::RunStarted(start) = run::started(600) else { unreachable!("the head of a log") };
    let tasks = vec!["denoise".to_owned(), "标签".to_owned()];
    view.hear(&Event::RunStarted(RunStarted { tasks, planned_padding: Some(0.04), ..start }));
    let task = |loss| TaskStep { samples: 8, loss: Some(loss), gradient_norm: None, weight: 1.0 };
    for n in 0..90 {
        let rung = run::knobs([16, 32, 48, 64, 80][usize::try_from(n / 20).unwrap_or(4)], 4);
        let real_positions = Some(run::step(n, rung).padded_positions() * 9 / 10);
        let tasks = vec![task(0.5 / (n + 1) as f64), task(1.25)];
        view.hear(&Event::StepDone(StepDone { real_positions, tasks, ..run::step(n, rung) }));
        if n % 20 == 19 {
            let to = run::knobs(rung.patch_size + 16, 4);
            view.hear(&run::moved(
                n,
                rung,
                to,
                MoveReason::Certified { upper: Bytes::mib(120), limit: run::MEMORY.budget },
            ));
        }
    }
    view
}

fn supplied() -> Progress {
    Progress { supply: Some(Supply { workers: 2, waited: 0.03 }), ..progress() }
}

fn drawn(width: usize, colors: Colors) -> String {
    view().lines(&supplied(), width, colors).join("\n") + "\n"
}

#[test]
fn a_narrow_terminal_shows_what_matters_most() {
    assert_snapshot!(drawn(40, Colors::Off));
}

#[test]
fn a_usual_terminal_shows_the_whole_run() {
    assert_snapshot!(drawn(80, Colors::Off));
}

#[test]
fn a_wide_terminal_has_room_for_all() {
    assert_snapshot!(drawn(200, Colors::Off));
}

#[test]
fn colours_change_nothing_but_the_colour() {
    for width in [40, 80, 200] {
        let colored = drawn(width, Colors::On);
        let mut plain = String::new();
        let mut rest = colored.as_str();
        while let Some((before, after)) = rest.split_once("\u{1b}[") {
            plain += before;
            rest = after.split_once('m').unwrap().1;
        }
        assert_eq!(plain + rest, drawn(width, Colors::Off), "{width}");
    }
    assert_snapshot!(drawn(80, Colors::On).replace('\u{1b}', "ESC"));
}

/// A task's name of two letters is four columns wide.
fn columns(line: &str) -> usize {
    line.chars().map(|it| if it > '\u{2e80}' { 2 } else { 1 }).sum()
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for width in 0..200 {
        let lines = view().lines(&supplied(), width, Colors::Off);
        assert!(lines.iter().all(|it| columns(it) <= width), "{width}: {lines:?}");
        assert_eq!(lines.len(), 8);
    }
}

/// The rows of a terminal that breaks its lines when it grows narrower, with the cursor in the last one.
struct Terminal(Vec<String>);

impl Terminal {
    fn narrow(&mut self, width: usize) {
        let mut broken = Vec::new();
        for line in &self.0 {
            let mut row = String::new();
            for letter in line.chars() {
                if width < columns(&row) + columns(&letter.to_string()) {
                    broken.push(std::mem::take(&mut row));
                }
                row.push(letter);
            }
            broken.push(row);
        }
        self.0 = broken;
    }

    /// Follows what erases rows and goes up, and returns what is left.
    fn erase(&self, erasure: &str) -> String {
        let (mut rows, mut at) = (self.0.clone(), self.0.len() - 1);
        for code in erasure.replace('\r', "").split("\x1b[").skip(1) {
            match code {
                "2K" => rows[at].clear(),
                "1A" => at = at.checked_sub(1).expect("a row above"),
                _ => panic!("unknown sequence {code:?}"),
            }
        }
        assert!(rows[at..].iter().all(String::is_empty), "{rows:?}");
        rows[..at].concat()
    }
}

#[test]
fn a_view_is_erased_and_nothing_above_it_also_where_the_terminal_has_grown_narrower() {
    let above = "step 2: a line that stays, and is broken as well";
    for (width, colors) in [(200, Colors::Off), (89, Colors::On), (80, Colors::Off)] {
        let lines = |colors| view().lines(&supplied(), width, colors);
        let drawn = Drawn::new(lines(colors));
        for narrower in [width, 89, 80, 79, 40, 23, 7, 2] {
            let mut terminal = Terminal([vec![above.to_owned()], lines(Colors::Off)].concat());
            terminal.narrow(narrower);
            assert_eq!(terminal.erase(&drawn.erasure(narrower)), above, "{width} to {narrower}");
        }
    }
    assert_eq!(Drawn::default().erasure(80), "");
}

#[test]
fn what_is_amiss_is_coloured() {
    let marked = |progress: &Progress| {
        let lines = view().lines(progress, 200, Colors::On);
        lines.iter().filter(|it| it.contains("\u{1b}[1m\u{1b}[33m")).count()
    };
    // The padding, which is ten per cent where four were planned.
    assert_eq!(marked(&supplied()), 1);
    assert_eq!(marked(&Progress { loss: f64::NAN, ..supplied() }), 2);
    assert_eq!(marked(&Progress { peak: Bytes::gib(1), ..supplied() }), 2);
    let waiting = Progress { supply: Some(Supply { workers: 1, waited: 0.4 }), ..progress() };
    let input = view().lines(&waiting, 200, Colors::Off)[4].clone();
    assert!(input.ends_with("waited 40 % for samples · 1 worker"), "{input}");
}

#[test]
fn a_run_that_has_not_begun_and_one_that_validates_are_shown() {
    let young = Progress::new(600, run::knobs(16, 4), Bytes::mib(170), "pixels", None);
    let lines = View::default().lines(&young, 80, Colors::Off);
    assert_eq!((lines.len(), lines[1].as_str()), (3, "▕          ▏ 0 % of 170.00 MiB"));
    let validating = Some(Validating { n_done: 120, n: 3400, seconds_left: Some(64.0) });
    let lines = view().lines(&Progress { validating, ..progress() }, 80, Colors::Off);
    assert_eq!(lines[0], "step 120/600 · validating: 120 of 3400, 1m 04s left");
}
