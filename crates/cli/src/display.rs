//! What a run shows while it runs.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use plimsoll_monitor::Progress;
use plimsoll_types::{Decision, Event};

/// Redraws of the live line; more often than the eye follows is waste.
const LIVE_EVERY: Duration = Duration::from_millis(100);
/// Lines where the output is no terminal: four a minute.
const PLAIN_EVERY: Duration = Duration::from_secs(15);

/// One live line on a terminal, a line now and then elsewhere, and a lasting line for each change.
#[derive(Debug)]
pub(crate) struct Display {
    width: Option<usize>,
    last: Option<Instant>,
}

impl Display {
    pub(crate) fn new() -> Self {
        let width =
            stderr().is_terminal().then(|| terminal_size::terminal_size().map_or(100, |it| usize::from(it.0.0)));
        Self { width, last: None }
    }

    pub(crate) fn show(&mut self, event: &Event, progress: &Progress) {
        if let Some(line) = lasting(event) {
            self.clear();
            eprintln!("{line}");
        }
        if matches!(event, Event::StepDone(_)) {
            self.refresh(progress);
        }
    }

    /// Leaves the line for others to write on.
    pub(crate) fn clear(&self) {
        if self.width.is_some() {
            eprint!("\r\x1b[2K");
        }
    }

    fn refresh(&mut self, progress: &Progress) {
        let every = if self.width.is_some() { LIVE_EVERY } else { PLAIN_EVERY };
        if self.last.is_some_and(|it| it.elapsed() < every) {
            return;
        }
        self.last = Some(Instant::now());
        match self.width {
            Some(width) => {
                eprint!("\r\x1b[2K{}", progress.live_line(width.saturating_sub(1)));
                // A terminal that cannot be written to shows nothing, which is all that can be done about it.
                drop(stderr().flush());
            }
            None => eprintln!("{}", progress.plain_line()),
        }
    }
}

/// Returns the line that stays on the screen.
fn lasting(event: &Event) -> Option<String> {
    match event {
        Event::Decided(decided) => match &decided.decision {
            Decision::Move(change) => {
                Some(format!("step {}: {} → {} ({})", decided.step, change.from, change.to, change.reason))
            }
            Decision::Brake { adjustments } => {
                Some(format!("step {}: warning: {adjustments} adjustments, the policy no longer goes up", decided.step))
            }
            Decision::Keep { .. } => None,
        },
        Event::StepFailed(failed) => {
            let peak = failed.attempt.peak.map(|it| format!(" (peak {it}, capacity {})", failed.capacity));
            let shape = failed.attempt.shape;
            Some(format!(
                "step {}: {shape} ran out of memory{}, in halves again",
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
