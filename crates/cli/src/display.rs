//! What a run shows while it runs.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use plimsoll_monitor::{Progress, Validating};
use plimsoll_predict::Phase;
use plimsoll_train::Doing;
use plimsoll_types::{BoundExceeded, Decision, Event, Stage, StepFailed, Validated};

use crate::beat::{Beat, EVERY, silence};
use crate::say::is_told_by_another;

/// Redraws of the panel: twice a second, because a write to a terminal costs as much as all else that Plimsoll does in
/// a step.
const LIVE_EVERY: Duration = Duration::from_millis(500);
/// The share of the capacity above which a step is worth a warning.
const ALARM: f64 = 0.95;

/// Shows how far planning is, when it takes long.
pub(crate) fn progress_of_planning() -> impl FnMut(Phase, usize, usize) {
    let beat = Beat::start("planning");
    move |phase, n_done, n| {
        let name = match phase {
            Phase::Train => "training",
            Phase::Infer => "inference",
        };
        beat.at(name, n_done, n);
    }
}

/// A live panel on a terminal, a line now and then elsewhere, and a lasting line for each change.
///
/// Whatever takes long in between is told as well, so that nothing is silent for longer than two seconds.
pub(crate) struct Display {
    width: Option<usize>,
    beat: Beat,
    /// When a panel was drawn.
    last: Option<Instant>,
    /// When a line could have been shown.
    asked: Option<Instant>,
    /// Lines of the panel that stand on the terminal.
    drawn: usize,
    alarmed: bool,
}

impl Display {
    /// Begins to show what a run does.
    pub(crate) fn new() -> Self {
        Self::of("training", "preparing")
    }

    /// Begins to show what a run of another process does.
    pub(crate) fn of_another() -> Self {
        Self::of("watching", "waiting for a step")
    }

    fn of(what: &'static str, place: &'static str) -> Self {
        let columns = || terminal_size::terminal_size().map_or(80, |it| usize::from(it.0.0));
        let beat = Beat::start(what);
        beat.under_way(place, 0, 0);
        let width = stderr().is_terminal().then(columns);
        Self { width, beat, last: None, asked: None, drawn: 0, alarmed: false }
    }

    pub(crate) fn show(&mut self, event: &Event, progress: &Progress) {
        if let Some(line) = lasting(event, &progress.unit_of_length).or_else(|| self.alarm(event)) {
            let erasure = self.erasure();
            self.beat.say(&format!("{erasure}{line}\n"), false);
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

    /// Leaves the place of the panel for others to write on.
    pub(crate) fn clear(&mut self) {
        let erasure = self.erasure();
        self.beat.say(&erasure, false);
    }

    /// Returns what erases the panel, from its last line upwards.
    fn erasure(&mut self) -> String {
        let lines = std::mem::take(&mut self.drawn);
        (0..lines).map(|line| if line == 0 { "\r\x1b[2K" } else { "\x1b[1A\r\x1b[2K" }).collect()
    }

    fn refresh(&mut self, progress: &Progress, is_first: bool) {
        let took = self.asked.replace(Instant::now()).map_or(Duration::ZERO, |it| it.elapsed());
        let Some(width) = self.width else {
            // What comes next may take as long again, and would be too late.
            if is_first || EVERY < silence() + took {
                self.beat.say(&format!("{}\n", progress.plain_line()), false);
            }
            return;
        };
        if self.last.is_some_and(|it| it.elapsed() < LIVE_EVERY) {
            return;
        }
        self.last = Some(Instant::now());
        let panel = progress.panel(width.saturating_sub(1));
        let text = self.erasure() + &panel.join("\n");
        self.drawn = panel.len();
        // One write, so that the panel does not flicker.
        self.beat.say(&text, true);
    }

    /// Warns once when a step comes close to the capacity, and again after it was lower.
    fn alarm(&mut self, event: &Event) -> Option<String> {
        let Event::StepDone(done) = event else { return None };
        let share = done.peak.share_of(done.capacity);
        let before = std::mem::replace(&mut self.alarmed, ALARM < share);
        (self.alarmed && !before).then(|| {
            format!("step {}: warning: peak {} is {:.0} % of the capacity", done.step, done.peak, 100.0 * share)
        })
    }
}

fn number(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// Shows a text; a terminal that is gone shows nothing, which must not end the run.
pub(crate) fn print(text: &str) {
    if is_told_by_another() {
        return;
    }
    let mut stderr = stderr().lock();
    drop(stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()));
}

/// Says how the batches of all lengths have changed, from that of the shortest to that of the longest.
fn resized(from: &[u32], to: &[u32]) -> String {
    if let ([before], [now]) = (from, to) {
        return format!("batches {} from {before} to {now}", if before < now { "grow" } else { "shrink" });
    }
    let pairs = || from.iter().zip(to);
    let (n_up, n_down) = (pairs().filter(|(a, b)| a < b).count(), pairs().filter(|(a, b)| b < a).count());
    let verb = match (n_up, n_down) {
        (_, 0) => "grow",
        (0, _) => "shrink",
        _ => "change",
    };
    let (n, short, long) = (to.len(), to.first().unwrap_or(&0), to.last().unwrap_or(&0));
    format!("batches {verb} at {} of {n} lengths: {short} of the shortest, {long} of the longest", n_up + n_down)
}

/// Returns the line that stays on the screen; `unit` is what a length counts.
fn lasting(event: &Event, unit: &str) -> Option<String> {
    match event {
        Event::Decided(decided) => match &decided.decision {
            Decision::Move(change) => {
                Some(format!("step {}: {} → {} ({})", decided.step, change.from, change.to, change.reason))
            }
            Decision::Resize(resize) => {
                Some(format!("step {}: {} ({})", decided.step, resized(&resize.from, &resize.to), resize.reason))
            }
            Decision::Brake { reason } => Some(format!("step {}: warning: {reason}", decided.step)),
            Decision::Keep { .. } => None,
        },
        Event::StepFailed(StepFailed { step, rung, stage: Stage::Process, .. }) => {
            Some(format!("step {step}: the process before this one ran out of memory at {rung}"))
        }
        Event::StepFailed(StepFailed { step, stage: Stage::Optimizer, .. }) => {
            Some(format!("step {step}: the optimizer's step ran out of memory, and is taken again"))
        }
        Event::BoundExceeded(BoundExceeded { step, phase, shape, upper, peak }) => {
            let pass = if *phase == Phase::Infer { " without gradients" } else { "" };
            Some(format!(
                "step {step}: {shape} {unit}{pass} reached {peak}, above its bound of {upper}: every bound has grown by that"
            ))
        }
        Event::GradientCheckpointing(it) => Some(format!(
            "step {}: one sample alone does not fit: gradient checkpointing is {}, for less memory and more time",
            it.step, it.recompute
        )),
        Event::StepFailed(failed) => {
            let peak = failed.attempt.peak.map(|it| format!(" (peak {it}, capacity {})", failed.capacity));
            let shape = failed.attempt.shape;
            Some(format!(
                "step {}: {shape} {unit} ran out of memory{}, and runs again in parts",
                failed.step,
                peak.unwrap_or_default()
            ))
        }
        Event::BudgetChanged(changed) => {
            Some(format!("step {}: the budget is now {}", changed.step, changed.budget.budget))
        }
        Event::Validated(it) => Some(format!("step {}: held out: {}", it.step, measured(it))),
        Event::Tested(it) => Some(format!("test of the model of step {}: {}", it.step, measured(it))),
        _ => None,
    }
}

/// Says what was measured, of what, and how long it took.
fn measured(Validated { metric_name, metric, baseline, part, seconds, .. }: &Validated) -> String {
    let part = part.map_or_else(String::new, |it| format!(", on {} of {} items", it.n, it.of));
    format!("{metric_name} {metric:.2}, baseline {baseline:.2}{part}, in {seconds:.1} s")
}

#[cfg(test)]
mod tests {
    use super::resized;

    #[test]
    fn a_change_of_many_batches_is_a_sentence() {
        let sentence = |from: &[u32], to: &[u32]| resized(from, to);
        let grown = "batches grow at 2 of 3 lengths: 9 of the shortest, 1 of the longest";
        assert_eq!(sentence(&[8, 4, 1], &[9, 5, 1]), grown);
        assert_eq!(sentence(&[1], &[8]), "batches grow from 1 to 8");
        assert!(sentence(&[8, 4, 1], &[4, 2, 1]).starts_with("batches shrink at 2 of 3 lengths: 4"));
        assert!(sentence(&[8, 4, 1], &[9, 3, 1]).starts_with("batches change at 2 of 3"));
    }
}
