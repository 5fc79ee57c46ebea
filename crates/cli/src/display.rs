//! What a run shows while it runs.

use std::env;
use std::ffi::OsStr;
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use plimsoll_monitor::{Colors, Drawn, Progress, Validating, View, lasting_line};
use plimsoll_plan::PlanPart;
use plimsoll_predict::Phase;
use plimsoll_probe::DeviceKind;
use plimsoll_train::{Doing, has_autotune};
use plimsoll_types::{Decision, Event, RunStarted};

use crate::beat::{Beat, EVERY, silence};
use crate::say::is_silent;

/// Redraws of the view: twice a second, because a write to a terminal costs as much as all else that Plimsoll does in
/// a step.
const LIVE_EVERY: Duration = Duration::from_millis(500);
/// The share of the capacity above which a step is worth a warning.
const ALARM: f64 = 0.95;
/// Columns and lines of a terminal that does not say.
const USUAL: (u16, u16) = (80, 24);

/// Shows how far planning for a device is, when it takes long; before the first part is done, most of the time may go into
/// trying kernels.
pub(crate) fn progress_of_planning(device: DeviceKind) -> impl FnMut(PlanPart, usize, usize) {
    let beat = Beat::start("planning");
    let tunes = has_autotune(device);
    move |part, n_done, n| {
        let name = match (part, tunes && n_done == 0) {
            (PlanPart::Shapes(Phase::Train), false) => "training",
            (PlanPart::Shapes(Phase::Infer), false) => "inference",
            (PlanPart::Shapes(Phase::Train), true) => "choosing kernels, training",
            (PlanPart::Shapes(Phase::Infer), true) => "choosing kernels, inference",
            (PlanPart::InRun, _) => "in a run",
            (PlanPart::Mixed, _) => "mixed shapes",
        };
        beat.at(name, n_done, n);
    }
}

/// A live view on a terminal, a line now and then elsewhere, and a lasting line for what stays worth knowing.
///
/// Whatever takes long in between is told as well, so that nothing is silent for longer than two seconds.
pub(crate) struct Display {
    view: View,
    /// Whether the view is drawn, and in which colours.
    live: Option<Colors>,
    beat: Beat,
    /// When the view was drawn.
    last: Option<Instant>,
    /// When a line could have been shown.
    asked: Option<Instant>,
    /// What of the view stands on the terminal.
    drawn: Drawn,
    alarmed: bool,
}

impl Display {
    /// Begins to show what a run does: by a view where that is wanted and standard error is a terminal.
    pub(crate) fn new(is_live: bool) -> Self {
        Self::of("training", "preparing", is_live)
    }

    /// Begins to show what a run of another process does.
    pub(crate) fn of_another() -> Self {
        Self::of("watching", "waiting for a step", true)
    }

    fn of(what: &'static str, place: &'static str, is_live: bool) -> Self {
        let beat = Beat::start(what);
        beat.under_way(place, 0, 0);
        let live = (is_live && is_drawable(stderr().is_terminal(), env::var_os("TERM").as_deref()))
            .then(|| colors(env::var_os("NO_COLOR").as_deref()));
        Self { view: View::default(), live, beat, last: None, asked: None, drawn: Drawn::default(), alarmed: false }
    }

    /// Takes over the head of the log of a run that goes on.
    pub(crate) fn begin(&mut self, start: &RunStarted) {
        self.view.begin(start);
    }

    /// Forgets what was heard, which comes again.
    pub(crate) fn forget(&mut self) {
        self.view = View::default();
    }

    /// Takes an event in without showing it.
    pub(crate) fn take(&mut self, event: &Event) {
        self.view.hear(event);
    }

    /// Shows where a run stands.
    pub(crate) fn draw(&mut self, progress: &Progress) {
        self.refresh(progress, true);
    }

    pub(crate) fn show(&mut self, event: &Event, progress: &Progress) {
        self.view.hear(event);
        // What the view has of itself needs no line beside it.
        let lasting = if self.live.is_some() && is_adjustment(event) { None } else { Some(event) };
        let line = lasting
            .and_then(|it| lasting_line(it, &progress.unit_of_length, progress.largest.map_or(1, |it| it.n_axes())));
        if let Some(line) = line.or_else(|| self.alarm(event)) {
            if is_silent() {
                // Of all lines, only a warning is said then.
                eprintln!("{line}");
            } else {
                let erasure = self.erasure();
                self.beat.say(&format!("{erasure}{line}\n"), false);
            }
        }
        if matches!(event, Event::StepDone(_)) {
            let is_first = self.asked.is_none();
            self.refresh(progress, is_first);
        }
    }

    /// Shows what a run begins to do, and how far a validation is.
    pub(crate) fn watch(&mut self, doing: Doing, progress: &Progress) {
        let (step, n_steps) = (number(progress.step), number(progress.n_steps));
        match (doing, progress.validating) {
            (Doing::Step, _) => self.beat.under_way("step", step + 1, n_steps),
            (Doing::Checkpoint, _) => self.beat.under_way("checkpoint after step", step, n_steps),
            (Doing::Validation, Some(Validating { n_done, n, .. })) if n_done < n => {
                self.beat.under_way("validation: item", number(n_done) + 1, number(n));
                self.refresh(progress, false);
            }
            (Doing::Test, Some(Validating { n_done, n, .. })) if n_done < n => {
                self.beat.under_way("test: item", number(n_done) + 1, number(n));
            }
            (Doing::Validation, _) => self.beat.under_way("validation", 0, 0),
            (Doing::Test, _) => self.beat.under_way("test", 0, 0),
        }
    }

    /// Shows that the run is over, and that its report is written.
    pub(crate) fn end(&mut self) {
        self.clear();
        self.beat.under_way("report", 0, 0);
    }

    /// Leaves the place of the view for others to write on.
    pub(crate) fn clear(&mut self) {
        let erasure = self.erasure();
        self.beat.say(&erasure, false);
    }

    /// Returns what erases the view.
    fn erasure(&mut self) -> String {
        let drawn = std::mem::take(&mut self.drawn);
        if drawn.is_empty() { String::new() } else { drawn.erasure(size().0) }
    }

    fn refresh(&mut self, progress: &Progress, is_first: bool) {
        let took = self.asked.replace(Instant::now()).map_or(Duration::ZERO, |it| it.elapsed());
        let Some(colors) = self.live else {
            // What comes next may take as long again, and would be too late.
            if is_first || EVERY < silence() + took {
                self.beat.say(&format!("{}\n", self.view.plain_line(progress)), false);
            }
            return;
        };
        if self.last.is_some_and(|it| it.elapsed() < LIVE_EVERY) {
            return;
        }
        self.last = Some(Instant::now());
        // The last column would wrap, and one line is for what takes long.
        let (columns, rows) = size();
        let mut lines = self.view.lines(progress, columns.saturating_sub(1), colors);
        lines.truncate(rows.saturating_sub(1).max(1));
        let text = self.erasure() + &lines.join("\n");
        self.drawn = Drawn::new(lines);
        // One write, so that the view does not flicker.
        self.beat.say(&text, true);
    }

    /// Warns once when a step comes close to the capacity, and again after it was lower.
    fn alarm(&mut self, event: &Event) -> Option<String> {
        let Event::StepDone(done) = event else { return None };
        let share = done.peak.share_of(done.capacity);
        let before = std::mem::replace(&mut self.alarmed, ALARM < share);
        (self.alarmed && !before).then(|| {
            format!("warning: step {}: peak {} is {:.0} % of the capacity", done.step, done.peak, 100.0 * share)
        })
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        // What comes next, such as an error, does not stand behind the view.
        if !self.drawn.is_empty() {
            self.clear();
        }
    }
}

fn is_adjustment(event: &Event) -> bool {
    matches!(event, Event::Decided(it) if matches!(it.decision, Decision::Move(_) | Decision::Resize(_)))
}

/// Whether a view can be drawn: a terminal that says by `TERM` that it moves no cursor gets lines.
fn is_drawable(is_terminal: bool, term: Option<&OsStr>) -> bool {
    is_terminal && term.is_none_or(|it| it != "dumb")
}

/// Colours are left out where `NO_COLOR` is set to anything (<https://no-color.org>).
fn colors(no_color: Option<&OsStr>) -> Colors {
    if no_color.is_some_and(|it| !it.is_empty()) { Colors::Off } else { Colors::On }
}

/// Returns the columns and lines of the terminal, as they are now.
fn size() -> (usize, usize) {
    let (columns, rows) = terminal_size::terminal_size_of(stderr()).map_or(USUAL, |it| (it.0.0, it.1.0));
    (columns.into(), rows.into())
}

fn number(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_without_a_cursor_gets_lines_and_no_color_takes_colours_away() {
        let term = |it: &'static str| Some(OsStr::new(it));
        assert!(is_drawable(true, term("xterm-256color")) && is_drawable(true, None));
        assert!(!is_drawable(true, term("dumb")) && !is_drawable(false, term("xterm-256color")));
        assert_eq!([None, term("")].map(colors), [Colors::On; 2]);
        assert_eq!([term("1"), term("0")].map(colors), [Colors::Off; 2]);
    }
}
