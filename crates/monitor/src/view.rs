//! What a terminal shows of a run while it goes on.

mod bar;
mod drawn;
mod line;

use std::collections::VecDeque;

use plimsoll_types::{Decision, Event, RunStarted, StepDone, SupplyStep};

pub use self::drawn::Drawn;
use self::line::{Line, Tone};
use crate::lasting::lasting_line;
use crate::policy::Policy;
use crate::progress::Supply;
use crate::task::name_of;
use crate::text::{counted, percent, share, short};
use crate::work::WorkSum;
use crate::{Progress, Work};

/// Steps whose peaks are kept: as many as the widest line shows.
const KEPT: usize = 64;
/// Adjustments that are shown.
const DECISIONS: usize = 3;
/// The part of the steps' time from which on waiting for samples is coloured.
const MUCH_WAITING: f64 = 0.25;
/// Columns of a line from which on lines have names: those of a terminal of 90, whose last one stays free.
const NAMED: usize = 89;

/// Remembers of a run what a terminal shows of it.
///
/// It takes a bounded amount of memory, and none for a step but the first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// Peaks of the last steps as parts of their budgets.
    shares: VecDeque<f64>,
    /// The last adjustments, each with its reason.
    decisions: VecDeque<String>,
    task_names: Vec<String>,
    task_losses: Vec<Option<f64>>,
    unit: String,
    /// Along how many axes samples extend; 0 before that is heard.
    n_axes: usize,
    work: WorkSum,
    planned_padding: Option<f64>,
    /// How far ahead the samples of the last step were read.
    supply: Option<SupplyStep>,
}

/// Whether lines are coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colors {
    /// They are, by ANSI's escape sequences.
    On,
    /// They are not.
    Off,
}

impl View {
    /// Takes in what the head of a log says: for a run that goes on, whose log has one already.
    pub fn begin(&mut self, start: &RunStarted) {
        self.task_names.clone_from(&start.tasks);
        self.unit.clone_from(&start.unit_of_length);
        self.n_axes = Policy::of(start).cells.n_axes();
        self.planned_padding = start.planned_padding;
    }

    /// Takes in the next event.
    pub fn hear(&mut self, event: &Event) {
        match event {
            Event::RunStarted(it) => self.begin(it),
            Event::StepDone(it) => self.step(it),
            Event::Decided(it) if matches!(it.decision, Decision::Move(_) | Decision::Resize(_)) => {
                if self.decisions.len() == DECISIONS {
                    self.decisions.pop_front();
                }
                self.decisions.extend(lasting_line(event, &self.unit, self.n_axes));
            }
            _ => {}
        }
    }

    fn step(&mut self, step: &StepDone) {
        if self.shares.len() == KEPT {
            self.shares.pop_front();
        }
        self.shares.push_back(step.peak.share_of(step.budget));
        self.work.hear(step);
        self.supply = step.supply;
        self.task_losses.resize(step.tasks.len().max(self.task_losses.len()), None);
        for (loss, it) in self.task_losses.iter_mut().zip(&step.tasks) {
            *loss = it.loss.or(*loss);
        }
    }

    /// Writes one line without bars, for a file or a pipe.
    pub fn plain_line(&self, progress: &Progress) -> String {
        let (used, work) = (percent(progress.share()), self.work.work());
        let mut parts = progress.learning();
        parts.insert(1, format!("epoch {}", progress.epoch));
        parts.push(format!("peak {} ({used} of {})", progress.peak, progress.budget));
        parts.extend(progress.running(work));
        parts.extend(work.map(|it| self.padding(it)));
        parts.extend(self.buffer());
        parts.join(" · ")
    }

    /// Draws lines of at most `width` columns each, which replace those before.
    ///
    /// What matters least goes first where there is no room, and so do the names of the lines.
    pub fn lines(&self, progress: &Progress, width: usize, colors: Colors) -> Vec<String> {
        let lines = [
            Some(learning(progress)),
            Some(self.memory(progress, width)),
            Some(Line::of("speed", progress.running(self.work.work()).into_iter().rev())),
            self.tasks(),
            self.input(progress),
        ];
        let decided = self.decisions.iter().map(|it| Line::of("decided", [it.clone()]));
        lines.into_iter().flatten().chain(decided).map(|it| it.fitted(width, NAMED <= width, colors)).collect()
    }

    /// The peak of the last step against its budget, and those of the steps before.
    fn memory(&self, progress: &Progress, width: usize) -> Line {
        let used = progress.share();
        let tone = if 1.0 < used { Tone::Bad } else { Tone::Good };
        let mut line = Line::new("memory");
        line.push(tone, format!("{} {} of {}", bar::bar(used), percent(used), progress.budget));
        let room = width.saturating_sub(line.width(NAMED <= width) + line::GAP);
        let last = self.shares.len().saturating_sub(room.min(KEPT));
        let history = bar::history(self.shares.iter().skip(last).copied());
        if !history.is_empty() {
            line.push(Tone::Plain, history);
        }
        line
    }

    fn tasks(&self) -> Option<Line> {
        let losses = self.task_losses.iter().enumerate();
        let known = losses.filter_map(|(at, it)| Some(format!("{} {}", name_of(&self.task_names, at), short((*it)?))));
        let known: Vec<String> = known.collect();
        (!known.is_empty()).then(|| Line::of("losses", known))
    }

    fn padding(&self, work: Work) -> String {
        format!("padding {}", work.against(self.planned_padding))
    }

    /// How full the look-ahead buffer was after the last step, where samples are streamed.
    fn buffer(&self) -> Option<String> {
        self.supply.map(|it| format!("buffer {} full", percent(it.buffer_fill)))
    }

    /// What of the positions is padding, and whether steps wait for their samples.
    fn input(&self, progress: &Progress) -> Option<Line> {
        let mut line = Line::new("input");
        if let Some(work) = self.work.work() {
            let tone = if work.is_above(self.planned_padding) { Tone::Bad } else { Tone::Plain };
            line.push(tone, self.padding(work));
        }
        if let Some(Supply { workers, waited }) = progress.supply {
            let tone = if MUCH_WAITING <= waited { Tone::Bad } else { Tone::Plain };
            line.push(tone, format!("waited {} for samples", share(waited)));
            line.push(Tone::Plain, counted(workers as u64, "worker"));
        }
        self.buffer().into_iter().for_each(|it| line.push(Tone::Plain, it));
        (!line.is_empty()).then_some(line)
    }
}

fn learning(progress: &Progress) -> Line {
    let mut line = Line::new("model");
    for (at, it) in progress.learning().into_iter().enumerate() {
        let is_lost = at == 1 && progress.validating.is_none() && !progress.loss.is_finite() && 0 < progress.step;
        line.push(if is_lost { Tone::Bad } else { Tone::Plain }, it);
    }
    line
}
