//! A run as it is summed up while its events are heard.

mod curves;

use std::collections::BTreeSet;

use plimsoll_types::{
    BoundExceeded, Budget, Bytes, Change, Decided, Decision, EndReason, Event, KeepReason, MoveReason, Phase, Resize,
    RunStarted, Stage, StepDone, StepFailed,
};

pub(crate) use self::curves::{Curves, MAX_TASKS};
use crate::dropped::DroppedReport;
use crate::foreseen::ForeseenSum;
use crate::gain::Gains;
use crate::learning::Learning;
use crate::policy::Policy;
use crate::source::SourceSums;
use crate::supply::SupplySum;
use crate::tail::{Last, Tail};
use crate::task::TaskSums;
use crate::text::unit_of_length;
use crate::usage::Peaks;
use crate::work::WorkSum;

/// What the events of a run come to, one after the other; it grows with what goes wrong and what is adjusted, not with the
/// steps.
///
/// Counts, sums, means and extremes are exact. Curves have all steps of a run of up to 4096; of a longer one they keep the
/// lowest and the highest of each of 2048 to 4096 groups of neighbours. Medians of more than 4096 shares are off by 0.00005 at
/// most.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    pub(crate) start: Option<RunStarted>,
    pub(crate) policy: Policy,
    /// The memory at the end.
    pub(crate) memory: Option<Budget>,
    /// Why the run ended, where no step followed.
    pub(crate) end: Option<EndReason>,
    /// Whether the last event was its end.
    has_ended: bool,
    pub(crate) counts: Counts,
    /// What the epochs that ended have dropped.
    pub(crate) dropped: Option<DroppedReport>,
    pub(crate) seconds: Seconds,
    pub(crate) work: WorkSum,
    pub(crate) supply: SupplySum,
    pub(crate) foreseen: ForeseenSum,
    pub(crate) peaks: Peaks,
    pub(crate) last: Option<Last>,
    /// The steps since the last adjustment, and those before it while none has followed.
    pub(crate) tail: Tail,
    ran: Tail,
    pub(crate) gains: Gains,
    pub(crate) sources: SourceSums,
    pub(crate) tasks: TaskSums,
    pub(crate) curves: Curves,
    pub(crate) learning: Learning,
    pub(crate) incidents: Incidents,
    /// Whether the policy had judged the sizes last, and seen no reason to change them.
    pub(crate) is_content: bool,
}

/// How often something has happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) committed: u64,
    pub(crate) given_up: u64,
    pub(crate) epochs: u64,
    /// Samples of the committed steps, and those that could not be read.
    pub(crate) samples: u64,
    pub(crate) skipped: u64,
    pub(crate) oom_recoveries: u64,
}

/// What things took, in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Seconds {
    pub(crate) steps: f64,
    pub(crate) committed_steps: f64,
    /// What the committed steps have waited for other ranks.
    pub(crate) waited: f64,
    validations: f64,
    ends: f64,
}

/// All that went wrong, and all that was adjusted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Incidents {
    pub(crate) failures: Vec<StepFailed>,
    pub(crate) excesses: Vec<BoundExceeded>,
    /// Adjustments, each with the step after which it was decided.
    pub(crate) moves: Vec<(u64, Move)>,
    failed: BTreeSet<u64>,
    given_up: Vec<u64>,
}

/// An adjustment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Move {
    /// Of the knobs.
    Knobs(Change),
    /// Of the batch size of each edge.
    Sizes(Resize),
}

impl History {
    /// Sums up what is there already.
    pub fn of(events: &[Event]) -> Self {
        let mut history = Self::default();
        for it in events {
            history.hear(it);
        }
        history
    }

    /// Takes in the next event.
    pub fn hear(&mut self, event: &Event) {
        self.has_ended = false;
        match event {
            Event::RunStarted(it) => self.begin(it),
            Event::StepDone(it) => self.step(it),
            Event::StepFailed(it) => self.incidents.fail(it),
            Event::BudgetChanged(it) => self.memory = Some(it.budget),
            Event::Decided(it) => self.decide(it),
            Event::BoundExceeded(it) => self.incidents.excesses.push(*it),
            Event::Validated(it) => {
                self.seconds.validations += it.seconds;
                self.peaks.validate(it);
                self.tasks.validate(it);
                self.learning.validate(it);
            }
            Event::Tested(it) => {
                self.peaks.test(it);
                self.learning.test(it);
            }
            Event::EpochDone(it) => {
                self.counts.epochs += 1;
                self.dropped = Some(DroppedReport::with(self.dropped, it.dropped));
            }
            Event::CheckpointSaved(it) => self.learning.save(it),
            Event::RunEnded(it) => {
                (self.end, self.has_ended) = (Some(it.reason), true);
                self.seconds.ends += it.seconds;
            }
            Event::GradientCheckpointing(_) => {}
        }
    }

    fn begin(&mut self, start: &RunStarted) {
        self.memory = Some(start.budget);
        if self.start.is_none() {
            self.policy = Policy::of(start);
            self.sources = SourceSums::of(&start.sources);
            self.tasks.name(&start.tasks);
            self.start = Some(start.clone());
        }
    }

    fn step(&mut self, step: &StepDone) {
        self.end = None;
        self.memory = Some(Budget { capacity: step.capacity, budget: step.budget });
        self.seconds.steps += step.seconds;
        self.counts.skipped += step.skipped.len() as u64;
        Last::put(&mut self.last, step);
        self.peaks.step(step);
        self.tasks.see(step.tasks.len());
        self.curves.hear(step);
        self.learning.step(step);
        if step.committed {
            self.commit(step);
        } else {
            self.counts.given_up += 1;
            self.incidents.given_up.push(step.step);
        }
    }

    fn commit(&mut self, step: &StepDone) {
        self.counts.committed += 1;
        self.counts.samples += step.n_samples();
        self.counts.oom_recoveries += u64::from(self.incidents.failed.contains(&step.step));
        self.seconds.committed_steps += step.seconds;
        self.seconds.waited += step.waited_seconds.unwrap_or(0.0);
        self.work.hear(step);
        self.supply.hear(step);
        self.foreseen.hear(step);
        self.tail.hear(step, &self.policy);
        self.gains.hear(step);
        self.sources.hear(&step.micro_batches);
        self.tasks.hear(step);
    }

    fn decide(&mut self, decided: &Decided) {
        self.is_content = false;
        let adjustment = match &decided.decision {
            Decision::Move(change) => Move::Knobs(change.clone()),
            Decision::Resize(resize) => {
                self.policy.resize(&resize.to);
                Move::Sizes(resize.clone())
            }
            Decision::Keep { reason } => {
                use KeepReason::{GainTooSmall, HighestCertified, InDeadBand};
                self.is_content = matches!(reason, HighestCertified | GainTooSmall | InDeadBand);
                return;
            }
            Decision::Brake { .. } => return,
        };
        self.incidents.moves.push((decided.step, adjustment));
        let tail = std::mem::take(&mut self.tail);
        if 0 < tail.n_committed {
            self.ran = tail;
        }
    }

    /// Whether nothing was heard after the end of the run.
    pub const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns the time that the events account for, in seconds: that of the steps and validations, or of all that ended.
    pub fn seconds(&self) -> f64 {
        self.seconds_of_work().max(self.seconds.ends)
    }

    /// Returns what the steps and validations took, in seconds.
    pub const fn seconds_of_work(&self) -> f64 {
        self.seconds.steps + self.seconds.validations
    }

    /// Returns what ran where, for below the title of a picture, and for how many steps a point of it stands.
    pub(crate) fn subtitle(&self) -> String {
        let what = self.start.as_ref().map_or_else(String::new, |it| format!("{} on {}", it.job, it.device));
        match self.curves.steps_per_point() {
            1 => what,
            n => format!("{what} · lowest and highest of up to {n} steps each"),
        }
    }

    /// Names what a micro-batch has so many of.
    pub(crate) fn unit_of_batch(&self) -> &'static str {
        if self.curves.knobs.are_rows { "rows" } else { "samples" }
    }

    /// Names what a length counts.
    pub(crate) fn unit_of_length(&self) -> &str {
        unit_of_length(self.start.as_ref().map_or("", |it| &it.unit_of_length))
    }

    /// Returns how many steps are done, where the last of them is the last.
    pub(crate) fn n_done(&self) -> u64 {
        self.last.as_ref().map_or(0, |it| it.step + 1)
    }

    /// Returns the steps after the last adjustment that a committed step followed.
    pub(crate) const fn tail_that_ran(&self) -> &Tail {
        if 0 < self.tail.n_committed { &self.tail } else { &self.ran }
    }

    /// Whether a policy has changed something as often as it may, and keeps what there is.
    pub(crate) fn is_braked(&self) -> bool {
        let n_moves = self.incidents.moves.len();
        self.policy.max_adjustments.is_some_and(|most| usize::try_from(most).is_ok_and(|most| most <= n_moves))
    }

    /// Whether sizes grew at the last adjustment, or none was made.
    pub(crate) fn has_grown_last(&self) -> bool {
        self.incidents.moves.last().is_none_or(|(_, it)| it.is_growth())
    }

    /// Counts the readings above their bounds, those of one kind of pass.
    pub(crate) fn n_excesses(&self, phase: Phase) -> u64 {
        self.incidents.excesses.iter().filter(|it| it.phase == phase).count() as u64
    }

    /// Returns the highest mark of all.
    pub(crate) fn peak(&self) -> Option<Bytes> {
        self.peaks.of_steps().max(self.peaks.of_validations())
    }
}

impl Incidents {
    fn fail(&mut self, failed: &StepFailed) {
        self.failed.insert(failed.step);
        self.failures.push(failed.clone());
    }

    /// Counts the steps that ran out of memory or were given up, and those with which a process ended.
    pub(crate) fn steps_that_failed(&self) -> [u64; 2] {
        let failed = |ended: bool| {
            self.failures.iter().filter(move |it| (it.stage == Stage::Process) == ended).map(|it| it.step)
        };
        let of_memory: BTreeSet<u64> = failed(false).chain(self.given_up.iter().copied()).collect();
        let with_process: BTreeSet<u64> = failed(true).collect();
        [of_memory, with_process].map(|it| it.len() as u64)
    }
}

impl Move {
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
