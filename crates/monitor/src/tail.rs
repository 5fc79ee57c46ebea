//! The steps since the last adjustment.

use plimsoll_types::{Bytes, Knobs, MicroBatch, StepDone};

use crate::median::Median;
use crate::policy::Policy;

/// What the committed steps between two adjustments reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tail {
    pub(crate) n_committed: u64,
    pub(crate) last: Option<Last>,
    /// Peaks as shares of the budget.
    pub(crate) shares: Median,
    /// Steps that ran as parts of the micro-batches that were asked for.
    n_halved: u64,
    n_micro_batches: u64,
    /// Micro-batches that are smaller than the policy allows at their edge, and those of edges that have the largest batch.
    n_smaller: u64,
    n_at_bound: u64,
}

/// What is to be known of a step when no other has followed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Last {
    pub(crate) step: u64,
    pub(crate) rung: Knobs,
    pub(crate) peak: Bytes,
    pub(crate) in_use: Bytes,
    pub(crate) reserved: Bytes,
    pub(crate) capacity: Bytes,
    pub(crate) budget: Bytes,
    /// Rows of each micro-batch.
    pub(crate) sizes: Vec<u32>,
}

impl Tail {
    pub(crate) fn hear(&mut self, step: &StepDone, policy: &Policy) {
        self.n_committed += 1;
        Last::put(&mut self.last, step);
        if Bytes::ZERO < step.budget {
            self.shares.push(step.peak.share_of(step.budget));
        }
        self.n_halved += u64::from(is_halved(step, policy));
        for it in step.micro_batches.chunk_by(|one, next| policy.may_be_of_one(one, next)) {
            let (allowed, samples) = (policy.allowed(it[0].edges), it.iter().map(|it| it.shape().samples).sum::<u32>());
            self.n_micro_batches += 1;
            self.n_smaller += u64::from(allowed.is_some_and(|most| samples < most));
            self.n_at_bound += u64::from(allowed.is_some_and(|most| policy.batch_max.is_some_and(|it| it <= most)));
        }
    }

    /// Whether most steps ran as parts of the micro-batches that were asked for.
    pub(crate) const fn is_mostly_halved(&self) -> bool {
        self.n_committed < 2 * self.n_halved
    }

    /// Whether most micro-batches have fewer samples than they might.
    pub(crate) const fn is_mostly_smaller(&self) -> bool {
        self.n_micro_batches < 2 * self.n_smaller
    }

    /// Whether most micro-batches might have as many samples as the bound of all.
    pub(crate) const fn is_mostly_at_bound(&self) -> bool {
        self.n_micro_batches < 2 * self.n_at_bound
    }
}

impl Last {
    /// Takes the place of the one before, in its room.
    pub(crate) fn put(last: &mut Option<Self>, step: &StepDone) {
        let mut sizes = last.take().map_or_else(Vec::new, |it| it.sizes);
        sizes.clear();
        sizes.extend(step.micro_batches.iter().map(|it| it.shape().samples));
        let StepDone { step, rung, peak, in_use, reserved, capacity, budget, .. } = *step;
        *last = Some(Self { step, rung, peak, in_use, reserved, capacity, budget, sizes });
    }
}

/// Whether two micro-batches that follow one another would have been one, had it fitted; one that is smaller because samples
/// could not be read is none.
fn is_halved(step: &StepDone, policy: &Policy) -> bool {
    let whole = u64::from(policy.part_size(step.n_rows(), step.rung.micro_batch_size));
    let rows = |it: &MicroBatch| u64::from(it.shape().samples);
    let of_one = |pair: &[MicroBatch]| rows(&pair[0]) + rows(&pair[1]) + step.skipped.len() as u64 <= whole;
    step.micro_batches.windows(2).any(of_one)
}
