//! The search on one path, by bounds that follow from its trials.

use std::ops::RangeInclusive;

use plimsoll_types::{Bytes, Fraction};

use crate::Finder;
use crate::finder::{Bound, Search};
use crate::found::Limit;
use crate::largest::{Certified, largest};
use crate::trials::Standing;

/// A batch that is larger by one part in so many is not worth a step.
const GAIN: u32 = 50;

/// By how much of the capacity a trial may pass it at the most, once, where a failure is survived.
const AT_RISK: f64 = 0.5;

/// A path of which the smallest batch fits.
pub(crate) struct Climb<'a> {
    finder: &'a Finder,
    path: RangeInclusive<u32>,
    standing: Standing,
    bound: Bound<'a>,
    /// Whether a batch ran out of memory whose bound was within the capacity.
    is_wrong: bool,
}

impl<'a> Climb<'a> {
    pub(crate) fn new(finder: &'a Finder, path: RangeInclusive<u32>, standing: Standing, bound: Bound<'a>) -> Self {
        let is_wrong = finder.contradicts(&path, finder.capacity, bound);
        Self { finder, path, standing, bound, is_wrong }
    }

    /// Tries the most promising batch, or ends with what is certain.
    pub(crate) fn next(&self) -> Search {
        let (best, hoped) = (self.certified(self.standing.ceiling, self.finder.budget()), self.hoped());
        if hoped <= best.batch.saturating_add(best.batch / GAIN) {
            return self.finder.found(best, self.limit_at(best.batch));
        }
        if self.finder.config.max_trials as usize <= self.finder.trials.len() {
            return self.finder.found(best, Limit::Trials);
        }
        match self.trial(best, hoped) {
            Some(batch) => Search::Try { batch, upper: self.finder.upper(batch, self.bound) },
            None => self.finder.found(best, Limit::Bound),
        }
    }

    /// Returns the largest batch that can be within the budget, though no bound may say that it is.
    fn hoped(&self) -> u32 {
        self.standing.hoped(self.finder.budget())
    }

    /// Returns how far to go: as far as is certain to be within the budget, if that is a good part of the way; else within
    /// the capacity; and where that leads nowhere either and a failure is survived, somewhat further.
    fn trial(&self, best: Certified, hoped: u32) -> Option<u32> {
        let own = self.standing.fits.batch;
        let is_far = |batch: u32| 2 * own <= batch || own + (hoped - own) / 2 <= batch;
        // The line through two trials keeps what follows within the budget, unless the need bends upwards behind them:
        // over a short way it hardly can, and once it did the budget is all that counts.
        let is_guided = self.standing.slope.is_some() && self.standing.ceiling == *self.path.end();
        let is_near = hoped <= own + own / 2;
        if own < best.batch && !(is_guided && (is_near || !is_far(best.batch)) && self.finder.survives()) {
            return Some(best.batch);
        }
        if !self.finder.survives() {
            return None;
        }
        let wide = self.certified(hoped, self.finder.capacity).batch;
        let has_failed = self.finder.trials.least_above(&self.path, self.finder.capacity).is_some();
        let batch = match wide {
            _ if own < wide && (has_failed || !is_guided || is_far(wide)) => wide,
            _ if has_failed => halfway(own, self.standing.ceiling),
            _ if is_guided => self.certified(hoped, at_risk(self.finder.capacity)).batch,
            _ => self.certified(own + 1, at_risk(self.finder.capacity)).batch,
        };
        Some(batch).filter(|it| own < *it)
    }

    /// Returns the largest batch up to `most` whose bound is within a limit: the largest that ran, if no other.
    fn certified(&self, most: u32, limit: Bytes) -> Certified {
        let own = Certified { batch: self.standing.fits.batch, upper: self.standing.fits.peak };
        let upper = |batch| if batch == own.batch { Some(own.upper) } else { self.finder.upper(batch, self.bound) };
        largest(own.batch..=most, limit, upper).filter(|_| !self.is_wrong).unwrap_or(own)
    }

    fn limit_at(&self, batch: u32) -> Limit {
        if batch == self.finder.config.batch_max {
            return Limit::BatchMax;
        }
        if batch < *self.path.end() {
            return Limit::Memory;
        }
        if self.finder.trials.have(batch + 1) { Limit::OtherKernels } else { Limit::Bound }
    }
}

fn at_risk(capacity: Bytes) -> Bytes {
    capacity.saturating_add(capacity.scale(Fraction::try_new(AT_RISK).expect("a constant between 0 and 1")))
}

/// Returns the batch between one that fits and the largest that may.
pub(crate) fn halfway(fits: u32, ceiling: u32) -> u32 {
    u32::midpoint(fits, ceiling.saturating_add(1))
}
