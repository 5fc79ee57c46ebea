//! The policy for samples of many lengths.

mod config;

use std::ops::Range;

use plimsoll_types::{
    Budget, Bytes, Cells, Decision, Extent, KeepReason, Knobs, MoveReason, Recompute, Resize, StepShape,
};
use serde::{Deserialize, Serialize};

pub use self::config::BucketedConfig;
use crate::bounds::batches;
use crate::ceiling::Ceiling;
use crate::controller::{Controller, Predict};
use crate::counts::{Failures, Moment, keep, share};
use crate::pace::{Pace, PaceConfig};
use crate::{PolicyError, StepMeasured, StepRefused};

/// A batch is lowered when its peak is above this share of the budget; as in [`crate::CertifiedConfig`].
const LOWER_ABOVE: f64 = 0.995;

/// What is left of a batch that ran out of memory, at most; as in [`crate::CertifiedConfig`].
const RETREAT_TO: f64 = 0.85;

/// Has for each cell of a lattice the largest micro-batch whose upper bound fits the budget.
///
/// A cell never has a larger batch than one that it covers.
/// One step has micro-batches of many cells, so that all sizes are judged after each step, and change together.
/// A batch that ran out of memory is closed with all above it, in its cell and in all that cover it, for a time; the others
/// keep theirs.
/// After the brake the sizes still fall, since safety does not depend on how often they changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bucketed {
    config: BucketedConfig,
    /// The sizes that a batch may be raised or lowered to.
    rungs: Vec<u32>,
    sizes: Vec<u32>,
    /// For each cell, the smallest batch that is closed.
    ceilings: Vec<Ceiling>,
    pace: Pace,
    failures: Failures,
    /// The sizes that what failed in the step under way leads to, once it is done.
    retreat: Option<Vec<u32>>,
}

impl Bucketed {
    /// Accepts a configuration, and starts with its first sizes.
    ///
    /// # Errors
    ///
    /// [`PolicyError::OutOfRange`] for the first key whose value is not allowed.
    pub fn try_new(config: BucketedConfig) -> Result<Self, PolicyError> {
        config.validate()?;
        let sizes = config.start.clone().unwrap_or_else(|| vec![1; config.cells.len()]);
        let ceilings = vec![Ceiling::default(); config.cells.len()];
        let rungs = batches(1, config.batch_max).collect();
        let (pace, failures, retreat) = Default::default();
        Ok(Self { config, rungs, sizes, ceilings, pace, failures, retreat })
    }

    /// Returns the largest micro-batch of each cell.
    pub fn batch_sizes(&self) -> &[u32] {
        &self.sizes
    }

    /// Hears of the budget that is there.
    fn hear(&mut self, moment: Moment) {
        self.pace.on_budget(moment);
        self.ceilings.iter_mut().for_each(|ceiling| ceiling.on_budget(moment));
    }

    /// Lowers every batch whose bound is above the budget, or else raises those that may be larger.
    fn judge(&mut self, now: u64, budget: Bytes, predict: Predict<'_>) -> Decision {
        let (to, above) = self.lowered(self.sizes.clone(), budget, predict);
        if let Some(steps_left) = self.pace.burst_left(above, now) {
            return keep(KeepReason::Cooldown { steps_left });
        }
        match above {
            Some(upper) => self.resize(to, now, MoveReason::BudgetFell { upper, budget }),
            None => self.climb(now, budget, predict),
        }
    }

    /// Where a bound is above the budget, returns sizes lowered to what they could be raised to, and the largest bound.
    ///
    /// One whose bound is just within the budget would be the next to fall.
    fn lowered(&self, mut to: Vec<u32>, budget: Bytes, predict: Predict<'_>) -> (Vec<u32>, Option<Bytes>) {
        let upper = |(size, cell): (&u32, &Extent)| predict(StepShape::of(*size, *cell)).filter(|_| 1 < *size);
        let uppers: Vec<_> = to.iter().zip(&*self.config.cells).map(|it| upper(it).map(|it| it.upper)).collect();
        let (limit, most) = (self.limit(budget), uppers.iter().copied().max().flatten().filter(|most| budget < *most));
        if most.is_none() {
            return (to, None);
        }
        for (at, size) in to.iter_mut().enumerate().filter(|(at, _)| uppers[*at].is_some_and(|upper| limit < upper)) {
            *size = self.largest_within(at, 1..*size, limit, predict).map_or(1, |(size, _)| size);
        }
        (falling(&self.config.cells, to), most)
    }

    fn climb(&mut self, now: u64, budget: Bytes, predict: Predict<'_>) -> Decision {
        if let Some(decision) = self.pace.hold(now, self.pace_config()) {
            return decision;
        }
        let limit = self.limit(budget);
        let (to, upper) = self.highest(now, limit, predict);
        let gains =
            |(size, to): (&u32, &u32)| size < to && f64::from(*size) * (1.0 + self.config.min_gain) <= f64::from(*to);
        match upper {
            None => keep(KeepReason::HighestCertified),
            Some(_) if !self.sizes.iter().zip(&to).any(gains) => keep(KeepReason::GainTooSmall),
            Some(upper) => self.resize(to, now, MoveReason::Certified { upper, limit }),
        }
    }

    fn pace_config(&self) -> PaceConfig {
        let BucketedConfig { warm_up_steps, cooldown_steps, max_reversals, .. } = self.config;
        PaceConfig { warm_up_steps, cooldown_steps, max_reversals }
    }

    /// Returns the largest sizes that are open and certified, with the largest bound of those that are new.
    fn highest(&self, now: u64, limit: Bytes, predict: Predict<'_>) -> (Vec<u32>, Option<Bytes>) {
        let (mut to, mut largest) = (self.sizes.clone(), None);
        let closed =
            |ceiling: &Ceiling| ceiling.at(self.pace.moment(now)).and_then(|closed| u32::try_from(closed).ok());
        let mut shut: Vec<u32> = self.ceilings.iter().map(|it| closed(it).unwrap_or(u32::MAX)).collect();
        for (at, cell) in self.config.cells.iter().enumerate() {
            let mut most = u32::MAX;
            for below in below(&self.config.cells[..at], *cell) {
                (shut[at], most) = (shut[at].min(shut[below]), most.min(to[below]));
            }
            let end = shut[at].min(most.saturating_add(1));
            if let Some((larger, upper)) = self.largest_within(at, to[at] + 1..end, limit, predict) {
                to[at] = larger;
                largest = largest.max(Some(upper));
            }
        }
        (to, largest)
    }

    /// Returns the largest rung among these sizes whose upper bound in a cell is within `limit`, with that bound.
    ///
    /// The smallest is asked first, and after most steps it does not fit: sizes are as large as they may be.
    /// As on a ladder, where a bound dips a smaller one may be found, or none, but never one whose bound does not fit.
    fn largest_within(&self, at: usize, sizes: Range<u32>, limit: Bytes, predict: Predict<'_>) -> Option<(u32, Bytes)> {
        let place = |size| self.rungs.partition_point(|rung| *rung < size);
        let fits = |size: u32| {
            let upper = predict(StepShape::of(size, self.config.cells[at]))?.upper;
            (upper <= limit).then_some((size, upper))
        };
        let (smallest, mut rest) = self.rungs.get(place(sizes.start)..place(sizes.end))?.split_first()?;
        let mut found = fits(*smallest)?;
        while let Some((below, [middle, above @ ..])) = rest.split_at_checked(rest.len() / 2) {
            (found, rest) = fits(*middle).map_or((found, below), |it| (it, above));
        }
        Some(found)
    }

    /// Returns what an upper bound has to fit into before a batch is raised.
    fn limit(&self, budget: Bytes) -> Bytes {
        share(budget, self.config.raise_below - self.config.noise)
    }

    /// Returns the largest rung of at most so many samples; 1 when there is none.
    fn rung_of_at_most(&self, samples: f64) -> u32 {
        let n = self.rungs.partition_point(|rung| f64::from(*rung) <= samples);
        self.rungs[n.saturating_sub(1)]
    }

    /// Returns the sizes with no more than `most` samples in the cells that cover this.
    fn capped(&self, sizes: &[u32], most: u32, extent: Extent) -> Vec<u32> {
        let cap = |(size, own): (&u32, &Extent)| if own.covers(extent) { most.min(*size) } else { *size };
        sizes.iter().zip(&*self.config.cells).map(cap).collect()
    }

    /// Goes where what failed leads to; what the failure has taught of the other cells is one change with it.
    fn retreat(&mut self, now: u64, budget: Bytes, predict: Predict<'_>) -> Option<Decision> {
        let to = self.retreat.take()?;
        let (to, _) = self.lowered(to, budget, predict);
        // A budget may have fallen meanwhile, and sizes with it.
        let to: Vec<_> = to.iter().zip(&self.sizes).map(|(to, size)| *to.min(size)).collect();
        let reason = MoveReason::OutOfMemory { count: self.failures.count() };
        (to != self.sizes).then(|| self.resize(to, now, reason))
    }

    /// Closes more than `most` samples in the smallest cells that cover this, and so in all that cover them: they never have
    /// more.
    ///
    /// What is closed already opens no later, unless an increase has `failed` again.
    fn close(&mut self, most: u32, extent: Extent, now: u64, failed: bool) {
        let (smallest, time, moment) = (most as usize + 1, self.config.reopen_after_steps, self.pace.moment(now));
        let cells = &self.config.cells;
        let is_smallest = |at: usize| !below(&cells[..at], cells[at]).any(|below| cells[below].covers(extent));
        let ceilings = self.ceilings.iter_mut().enumerate().filter(|(at, _)| cells[*at].covers(extent));
        for (_, ceiling) in ceilings.filter(|(at, _)| is_smallest(*at)) {
            if failed { ceiling.close(smallest, moment, time) } else { ceiling.lower(smallest, moment, time) }
        }
    }

    /// Answers a micro-batch whose peak is too high, for which no cooldown counts.
    ///
    /// A batch whose bound is known to be as high is kept out of by that alone.
    fn step_down(&mut self, done: &StepMeasured, predict: Predict<'_>) -> Option<Decision> {
        let (now, limit) = (done.step.saturating_add(1), share(done.budget.budget, LOWER_ABOVE));
        // After a failure, the peak may be that of the batch that failed.
        if done.peak <= limit || self.failures.failed(done.step) {
            return None;
        }
        let high = done.highest.filter(|it| predict(*it).is_none_or(|it| it.upper < done.peak))?;
        let most = self.rung_of_at_most(f64::from(high.samples) - 1.0);
        let to = self.capped(&self.sizes, most, high.extent());
        if to == self.sizes {
            return None;
        }
        self.close(most, high.extent(), now, false);
        Some(self.resize(to, now, MoveReason::PeakTooHigh { peak: done.peak, limit }))
    }

    fn resize(&mut self, to: Vec<u32>, now: u64, reason: MoveReason) -> Decision {
        let (from, config) = (std::mem::replace(&mut self.sizes, to), self.pace_config());
        self.pace.on_change(reason, now, config);
        Decision::Resize(Resize { from, to: self.sizes.clone(), reason })
    }
}

/// The places of the cells before one that it covers.
fn below(before: &[Extent], cell: Extent) -> impl Iterator<Item = usize> {
    before.iter().enumerate().filter(move |(_, it)| cell.covers(**it)).map(|(at, _)| at)
}

/// The sizes with none above that of a cell that its own covers.
fn falling(cells: &Cells, mut sizes: Vec<u32>) -> Vec<u32> {
    for (at, cell) in cells.iter().enumerate() {
        let most = below(&cells[..at], *cell).map(|below| sizes[below]).min();
        sizes[at] = most.map_or(sizes[at], |most| most.min(sizes[at]));
    }
    sizes
}

impl Controller for Bucketed {
    fn on_step_done(&mut self, done: &StepMeasured, predict: Predict<'_>) -> Decision {
        let moment = Moment { now: done.step.saturating_add(1), budget: done.budget.budget };
        self.hear(moment);
        if !self.failures.failed(done.step) {
            let sizes = self.sizes.iter().map(|size| *size as usize);
            self.ceilings.iter_mut().zip(sizes).for_each(|(ceiling, size)| ceiling.on_clean_step(size, moment));
        }
        let retreats = self.retreat(moment.now, moment.budget, predict);
        let lowers = retreats.or_else(|| self.step_down(done, predict));
        lowers.unwrap_or_else(|| self.judge(moment.now, moment.budget, predict))
    }

    fn on_step_failed(&mut self, failed: &StepRefused, predict: Predict<'_>) -> Decision {
        let (now, samples, extent) = (failed.step.saturating_add(1), failed.shape.samples, failed.shape.extent());
        let most = self.rung_of_at_most(f64::from(samples) * RETREAT_TO);
        // The halves of a step that failed say how far down to go, not that another increase has failed.
        let is_first = self.failures.on_step_failed(failed.step);
        self.close(most, extent, now, is_first);
        self.pace.cool_down(now, self.pace_config());
        self.retreat = Some(self.capped(self.retreat.as_ref().unwrap_or(&self.sizes), most, extent));
        let waits = KeepReason::Cooldown { steps_left: self.config.cooldown_steps };
        let waits = keep(if samples == 1 { KeepReason::AtBounds } else { waits });
        if failed.in_parts { waits } else { self.retreat(now, self.pace.moment(now).budget, predict).unwrap_or(waits) }
    }

    fn on_budget_changed(&mut self, now: u64, Budget { budget, .. }: Budget, predict: Predict<'_>) -> Decision {
        self.hear(Moment { now, budget });
        self.judge(now, budget, predict)
    }

    fn on_checkpointing(&mut self, recompute: Recompute) {
        let cells = self.config.cells.iter();
        let anew = self.ceilings.iter_mut().zip(cells).filter(|(_, cell)| recompute.is_on(cell.edge()));
        anew.for_each(|(ceiling, _)| *ceiling = Ceiling::default());
        self.retreat = None;
    }

    fn knobs(&self) -> Knobs {
        let last = self.sizes.len() - 1;
        Knobs { patch_size: self.config.cells[last].edge(), micro_batch_size: self.sizes[last] }
    }

    fn adjustments(&self) -> u32 {
        self.pace.adjustments()
    }

    fn oom_count(&self) -> u32 {
        self.failures.count()
    }
}
