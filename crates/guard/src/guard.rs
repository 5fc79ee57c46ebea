//! What now, after what happened.

use std::ops::Range;

use plimsoll_types::Bytes;

use crate::GuardError;
use crate::parts::{Ahead, Failure, Parts};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// The part was looked at.
    Seen(Ahead),
    /// The part ran.
    Ran,
    /// The part did not; the device has been cleaned up since.
    Failed(Failure),
    /// What all parts have added up to is there.
    SumFits,
    /// It is not, though each part is.
    SumFailed,
    /// Parts were read with what they added up to, and nobody can tell which of them is to blame.
    Unread,
    /// The device has been cleaned up, and nothing of the step is left.
    CleanedUp,
    /// The weights were read.
    Weights {
        /// Whether all of them could be.
        are_whole: bool,
    },
    /// The optimizer's step ran out of memory.
    UpdateFailed {
        /// Whether the state from before is there again.
        has_copy: bool,
    },
    /// An earlier one has lost the weights, and only now does it show.
    WeightsLost,
    /// An item of a validation alone does not fit.
    ItemNeverFits,
    /// Whoever runs the step says what else can be done.
    Asked(Means),
}

/// What whoever runs a step can do when it does not go on by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Means {
    /// The step, by its number: one that comes again has failed before.
    pub step: u64,
    /// Whether there may be more memory than it goes by.
    pub may_raise_budget: bool,
    /// Whether activations can be recomputed, and are not yet.
    pub may_recompute: bool,
    /// Whether the sample that does not fit can be left out.
    pub may_leave_out: bool,
}

/// What now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Now {
    /// Say what is known of this part.
    Look(Range<usize>),
    /// Run it.
    Run(Range<usize>),
    /// Check what all parts have added up to.
    CheckSum,
    /// Drop all that there is of the step, and clean up.
    CleanUp,
    /// Let the optimizer step.
    Update,
    /// Read the weights: where a failure is silent, lost ones fit nowhere.
    ReadWeights,
    /// Say what else can be done: this is in the way, and the step does not go on by itself.
    Ask(Obstacle),
    /// Go by more memory, and begin the step again.
    RaiseBudget,
    /// Recompute activations from here on, and begin the step again.
    Recompute,
    /// Leave this sample out, and begin the step again without it.
    LeaveOut(usize),
    /// Clean up, and begin the step again with the state from before.
    TakeAgain,
    /// Go back to the last checkpoint.
    GoBack,
    /// Nothing is left to be done against this.
    GiveUp(Obstacle),
}

/// What stands in the way of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Some of its samples, or one alone, do not fit.
    Samples(GuardError),
    /// The gradients of all parts together do not fit, though each part does.
    Sum,
    /// An item of a validation does not fit.
    Item,
    /// The optimizer's step ran out of memory.
    Update {
        /// Whether the state from before is there again; else the weights are lost.
        has_copy: bool,
    },
}

/// Optimizer's steps out of memory between two checkpoints after which there is no further try: the run gets nowhere.
const MOST_RECOVERIES: u32 = 5;

/// Decides what is done with a step: in which parts it runs, and what now when one of them, their sum or the optimizer ran
/// out of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    parts: Parts,
    /// Where a failure is silent, what does not fit may be for want of whole weights.
    fails_silently: bool,
    /// Whether the sum of this step has failed before.
    sum_failed: bool,
    obstacle: Option<Obstacle>,
    /// The last step whose optimizer ran out of memory.
    last: Option<u64>,
    /// How often it has since the last checkpoint, or since one that was taken again got on.
    n_recoveries: u32,
    /// Whether the step is taken again from a copy.
    takes_again: bool,
}

impl Guard {
    /// Guards steps on a device that tells of each failure, or `fails_silently`.
    pub fn new(fails_silently: bool) -> Self {
        Self { fails_silently, ..Self::default() }
    }

    /// Begins a step, or an attempt at the same one after [`Now::Ask`].
    ///
    /// Where parts may not be halved, one that does not fit stands in the way at once.
    pub fn begin(&mut self, parts: impl IntoIterator<Item = Range<usize>>, budget: Bytes, may_halve: bool) -> Now {
        (self.parts, self.sum_failed, self.obstacle) = (Parts::new(parts, budget, may_halve), false, None);
        self.next()
    }

    /// Whether something stands in the way that nobody has asked about.
    pub fn is_stopped(&self) -> bool {
        self.obstacle.is_some()
    }

    /// Something else stands in the way, against which nothing can be done here.
    pub fn forget(&mut self) {
        self.obstacle = None;
    }

    /// The optimizer's step is done: one that was taken again got on.
    pub fn note_updated(&mut self) {
        if std::mem::take(&mut self.takes_again) {
            (self.last, self.n_recoveries) = (None, 0);
        }
    }

    /// A checkpoint is there from which the run gets on.
    pub fn note_saved(&mut self) {
        self.n_recoveries = 0;
    }

    /// Returns the parts of the step that ran, in order.
    pub fn ran(&self) -> &[Range<usize>] {
        self.parts.ran()
    }

    /// Answers what happened.
    pub fn on(&mut self, happened: Happened) -> Now {
        match happened {
            Happened::Seen(ahead) => match self.parts.look(ahead) {
                Ok(Some(part)) => Now::Run(part),
                Ok(None) => self.next(),
                Err(misfit) => self.stop(Obstacle::Samples(misfit)),
            },
            Happened::Ran => {
                self.parts.note_ran();
                self.next()
            }
            Happened::Failed(failure) => match self.parts.note_failed(failure) {
                Ok(Some(part)) => Now::Run(part),
                Ok(None) => self.next(),
                Err(misfit) => self.stop(Obstacle::Samples(misfit)),
            },
            Happened::SumFits => Now::Update,
            // The pages of all parts together may have been too much.
            Happened::SumFailed if !std::mem::replace(&mut self.sum_failed, true) => Now::CleanUp,
            Happened::SumFailed => self.stop(Obstacle::Sum),
            // Whoever takes all parts again reads them one by one.
            Happened::Unread => Now::CleanUp,
            Happened::CleanedUp => {
                self.parts.begin_again();
                self.next()
            }
            Happened::Weights { are_whole: true } => self.obstacle.clone().map_or(Now::Update, Now::Ask),
            Happened::Weights { are_whole: false } | Happened::WeightsLost => {
                self.stop(Obstacle::Update { has_copy: false })
            }
            Happened::UpdateFailed { has_copy } => self.stop(Obstacle::Update { has_copy }),
            Happened::ItemNeverFits => self.stop(Obstacle::Item),
            Happened::Asked(means) => self.ways_out(means),
        }
    }

    fn next(&mut self) -> Now {
        self.parts.next().map_or(Now::CheckSum, Now::Look)
    }

    fn stop(&mut self, obstacle: Obstacle) -> Now {
        let may_be_lost = self.fails_silently && matches!(obstacle, Obstacle::Samples(_) | Obstacle::Item);
        self.obstacle = Some(obstacle.clone());
        if may_be_lost { Now::ReadWeights } else { Now::Ask(obstacle) }
    }

    /// Answers with the first that can be done of what costs least.
    fn ways_out(&mut self, means: Means) -> Now {
        let Some(obstacle) = self.obstacle.take() else { return Now::Update };
        match &obstacle {
            Obstacle::Update { has_copy } => self.recover(means.step, *has_copy),
            _ if means.may_raise_budget => Now::RaiseBudget,
            Obstacle::Samples(_) | Obstacle::Sum if means.may_recompute => Now::Recompute,
            Obstacle::Samples(misfit) => match misfit.sample().filter(|_| means.may_leave_out) {
                Some(sample) => Now::LeaveOut(sample),
                None => Now::GiveUp(obstacle),
            },
            Obstacle::Sum | Obstacle::Item => Now::GiveUp(obstacle),
        }
    }

    fn recover(&mut self, step: u64, has_copy: bool) -> Now {
        self.n_recoveries += 1;
        if self.last.replace(step) == Some(step) || MOST_RECOVERIES < self.n_recoveries {
            return Now::GiveUp(Obstacle::Update { has_copy });
        }
        self.takes_again = has_copy;
        if has_copy { Now::TakeAgain } else { Now::GoBack }
    }
}

/// Returns the weight of a part's mean in the mean over the whole step: its share of the samples, or of the tokens.
pub fn weight(n_units: u64, n_total: u64) -> f64 {
    n_units as f64 / n_total as f64
}

#[cfg(test)]
mod tests;
