//! The events that count, by kind.

use std::collections::BTreeSet;

use plimsoll_types::{
    BoundExceeded, Bytes, Change, Decision, Event, MoveReason, Resize, RunStarted, Stage, StepDone, StepFailed,
    Validated,
};

use crate::text::unit_of_length;

/// The events of a run, with a query for each kind that the summaries and pictures use.
pub(crate) struct Run<'a>(pub(crate) &'a [Event]);

impl<'a> Run<'a> {
    pub(crate) fn new(events: &'a [Event]) -> Self {
        Self(events)
    }

    pub(crate) fn start(&self) -> Option<&'a RunStarted> {
        self.0.iter().find_map(|it| if let Event::RunStarted(it) = it { Some(it) } else { None })
    }

    /// Returns what ran where, for below the title of a picture.
    pub(crate) fn subtitle(&self) -> String {
        self.start().map_or_else(String::new, |it| format!("{} on {}", it.job, it.device))
    }

    /// Names what a length counts.
    pub(crate) fn unit_of_length(&self) -> &'a str {
        unit_of_length(self.start().map_or("", |it| &it.unit_of_length))
    }

    pub(crate) fn steps(&self) -> impl Iterator<Item = &'a StepDone> {
        self.0.iter().filter_map(|it| if let Event::StepDone(it) = it { Some(it) } else { None })
    }

    pub(crate) fn failures(&self) -> impl Iterator<Item = &'a StepFailed> {
        self.0.iter().filter_map(|it| if let Event::StepFailed(it) = it { Some(it) } else { None })
    }

    /// Counts the steps that ran out of memory or were given up, and those with which a process ended.
    pub(crate) fn steps_that_failed(&self) -> [u64; 2] {
        let failed = |ended: bool| self.failures().filter(move |it| (it.stage == Stage::Process) == ended);
        let given_up = self.steps().filter(|it| !it.committed).map(|it| it.step);
        let of_memory: BTreeSet<u64> = failed(false).map(|it| it.step).chain(given_up).collect();
        let with_process: BTreeSet<u64> = failed(true).map(|it| it.step).collect();
        [of_memory, with_process].map(|it| it.len() as u64)
    }

    pub(crate) fn validations(&self) -> impl Iterator<Item = &'a Validated> {
        self.0.iter().filter_map(|it| if let Event::Validated(it) = it { Some(it) } else { None })
    }

    /// Returns the test at the end, where there was one.
    pub(crate) fn test(&self) -> Option<&'a Validated> {
        self.0.iter().rev().find_map(|it| if let Event::Tested(it) = it { Some(it) } else { None })
    }

    /// Returns the readings that were above their bounds.
    pub(crate) fn excesses(&self) -> impl Iterator<Item = &'a BoundExceeded> {
        self.0.iter().filter_map(|it| if let Event::BoundExceeded(it) = it { Some(it) } else { None })
    }

    /// Returns the adjustments, each with the step after which it was decided.
    pub(crate) fn moves(&self) -> impl Iterator<Item = (u64, Move<'a>)> {
        self.0.iter().filter_map(as_move)
    }

    /// Returns the name of each task; a task whose name nobody said goes by its number.
    pub(crate) fn task_names(&self) -> Vec<String> {
        let named = self.start().map_or(&[][..], |it| &it.tasks);
        let seen = self.steps().map(|it| it.tasks.len()).chain(self.validations().map(|it| it.tasks.len()));
        let n = seen.max().unwrap_or(0).max(named.len());
        (0..n).map(|it| named.get(it).cloned().unwrap_or_else(|| format!("task {it}"))).collect()
    }

    /// Returns the events after the last adjustment: all of them when there was none.
    pub(crate) fn after_last_move(&self) -> Self {
        let from = self.0.iter().rposition(|it| as_move(it).is_some()).map_or(0, |at| at + 1);
        Self(&self.0[from..])
    }

    /// Returns the events after the last adjustment that a committed step followed: all of them when there was none.
    pub(crate) fn after_last_move_that_ran(&self) -> Self {
        let last = self.0.iter().rposition(|it| matches!(it, Event::StepDone(it) if it.committed)).unwrap_or(0);
        let from = self.0[..last].iter().rposition(|it| as_move(it).is_some()).map_or(0, |at| at + 1);
        Self(&self.0[from..])
    }

    /// Returns the steps that the optimizer took.
    pub(crate) fn committed(&self) -> impl Iterator<Item = &'a StepDone> {
        self.steps().filter(|it| it.committed)
    }

    /// Returns the highest mark of the steps.
    pub(crate) fn peak_of_steps(&self) -> Option<Bytes> {
        self.steps().map(|it| it.peak).max()
    }

    /// Returns the highest mark of the validations and the test.
    pub(crate) fn peak_of_validations(&self) -> Option<Bytes> {
        self.validations().chain(self.test()).map(|it| it.peak).max()
    }

    /// Returns the highest mark of all.
    pub(crate) fn peak(&self) -> Option<Bytes> {
        self.peak_of_steps().max(self.peak_of_validations())
    }
}

/// An adjustment.
#[derive(Clone, Copy)]
pub(crate) enum Move<'a> {
    /// Of the knobs.
    Knobs(&'a Change),
    /// Of the batch size of each edge.
    Sizes(&'a Resize),
}

impl Move<'_> {
    pub(crate) const fn reason(&self) -> MoveReason {
        match self {
            Self::Knobs(change) => change.reason,
            Self::Sizes(resize) => resize.reason,
        }
    }

    /// Whether more memory is taken than before.
    pub(crate) const fn is_growth(&self) -> bool {
        matches!(self.reason(), MoveReason::Certified { .. } | MoveReason::PeakTooLow { .. })
    }
}

fn as_move(event: &Event) -> Option<(u64, Move<'_>)> {
    let Event::Decided(decided) = event else { return None };
    match &decided.decision {
        Decision::Move(change) => Some((decided.step, Move::Knobs(change))),
        Decision::Resize(resize) => Some((decided.step, Move::Sizes(resize))),
        Decision::Keep { .. } | Decision::Brake { .. } => None,
    }
}
