//! What a run shows while it runs.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use plimsoll_monitor::Progress;
use plimsoll_predict::Phase;
use plimsoll_types::{BoundExceeded, Decision, Event, Stage, StepFailed};

/// Redraws of the panel: twice a second, because a write to a terminal costs as much as all else that Plimsoll does in
/// a step.
const LIVE_EVERY: Duration = Duration::from_millis(500);
/// Lines where the output is no terminal: four a minute.
const PLAIN_EVERY: Duration = Duration::from_secs(15);

/// The share of the capacity above which a step is worth a warning.
const ALARM: f64 = 0.95;

/// A live panel on a terminal, a line now and then elsewhere, and a lasting line for each change.
#[derive(Debug)]
pub(crate) struct Display {
    width: Option<usize>,
    last: Option<Instant>,
    /// Lines of the panel that stand on the terminal.
    drawn: usize,
    alarmed: bool,
}

impl Display {
    pub(crate) fn new() -> Self {
        let columns = || terminal_size::terminal_size().map_or(80, |it| usize::from(it.0.0));
        Self { width: stderr().is_terminal().then(columns), last: None, drawn: 0, alarmed: false }
    }

    pub(crate) fn show(&mut self, event: &Event, progress: &Progress) {
        if let Some(line) = lasting(event).or_else(|| self.alarm(event)) {
            let erasure = self.erasure();
            print(&format!("{erasure}{line}\n"));
        }
        if matches!(event, Event::StepDone(_)) {
            self.refresh(progress);
        }
    }

    /// Leaves the place of the panel for others to write on.
    pub(crate) fn clear(&mut self) {
        print(&self.erasure());
    }

    /// Returns what erases the panel, from its last line upwards.
    fn erasure(&mut self) -> String {
        let lines = std::mem::take(&mut self.drawn);
        (0..lines).map(|line| if line == 0 { "\r\x1b[2K" } else { "\x1b[1A\r\x1b[2K" }).collect()
    }

    fn refresh(&mut self, progress: &Progress) {
        let every = if self.width.is_some() { LIVE_EVERY } else { PLAIN_EVERY };
        if self.last.is_some_and(|it| it.elapsed() < every) {
            return;
        }
        self.last = Some(Instant::now());
        let Some(width) = self.width else {
            print(&format!("{}\n", progress.plain_line()));
            return;
        };
        let panel = progress.panel(width.saturating_sub(1));
        let text = self.erasure() + &panel.join("\n");
        self.drawn = panel.len();
        // One write, so that the panel does not flicker.
        print(&text);
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

/// Shows a text; a terminal that is gone shows nothing, which must not end the run.
pub(crate) fn print(text: &str) {
    let mut stderr = stderr().lock();
    drop(stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()));
}

/// Returns the line that stays on the screen.
fn lasting(event: &Event) -> Option<String> {
    match event {
        Event::Decided(decided) => match &decided.decision {
            Decision::Move(change) => {
                Some(format!("step {}: {} → {} ({})", decided.step, change.from, change.to, change.reason))
            }
            Decision::Resize(resize) => {
                Some(format!("step {}: batches {:?} → {:?} ({})", decided.step, resize.from, resize.to, resize.reason))
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
                "step {step}: {shape}{pass} reached {peak}, above its bound of {upper}: every bound has grown by that"
            ))
        }
        Event::GradientCheckpointing(it) => Some(format!(
            "step {}: one sample alone does not fit: gradient checkpointing is on from here, for less memory and more time",
            it.step
        )),
        Event::StepFailed(failed) => {
            let peak = failed.attempt.peak.map(|it| format!(" (peak {it}, capacity {})", failed.capacity));
            let shape = failed.attempt.shape;
            Some(format!(
                "step {}: {shape} ran out of memory{}, and runs again in parts",
                failed.step,
                peak.unwrap_or_default()
            ))
        }
        Event::BudgetChanged(changed) => {
            Some(format!("step {}: the budget is now {}", changed.step, changed.budget.budget))
        }
        Event::Validated(it) => {
            let (name, metric, baseline) = (&it.metric_name, it.metric, it.baseline);
            Some(format!("step {}: {name} {metric:.2}, baseline {baseline:.2}, in {:.1} s", it.step, it.seconds))
        }
        _ => None,
    }
}
