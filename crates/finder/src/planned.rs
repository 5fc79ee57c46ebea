//! The search where a dry run says what any batch needs.

use crate::climb::halfway;
use crate::finder::{Bound, Search};
use crate::found::Limit;
use crate::largest::{Certified, largest};
use crate::{Finder, FinderError};

/// Trials that are enough while none fails: the smallest batch, one with room for what the plan may lack, and the choice
/// that both have corrected.
const ENOUGH: usize = 3;

impl Finder {
    /// Tries what the plan says, and confirms it: a plan is exact but for what real steps add to it.
    pub(crate) fn by_plan(&self, plan: Bound<'_>) -> Result<Search, FinderError> {
        let low = self.config.batch_min;
        let upper = |batch| self.upper(batch, plan);
        if !self.trials.have(low) {
            let shape = self.config.shape(low);
            let planned = plan(shape).ok_or(FinderError::NoPlan { shape })?;
            self.check_fits(low, planned.expected)?;
            return Ok(Search::Try { batch: low, upper: Some(planned.upper) });
        }
        let all = low..=self.config.batch_max;
        let Some(it) = self.trials.standing(&all, self.budget()) else { return Err(self.nothing_fits(low)) };
        let own = Certified { batch: it.fits.batch, upper: it.fits.peak };
        let known = |batch| if batch == own.batch { Some(own.upper) } else { upper(batch) };
        let planned = largest(own.batch..=it.ceiling, self.budget(), known).unwrap_or(own);
        // A failure that the plan did not foresee leaves nothing to trust but what ran.
        let is_wrong = self.contradicts(&all, self.budget(), plan);
        let (best, next) = if is_wrong { (own, halfway(own.batch, it.ceiling)) } else { (planned, planned.batch) };
        let most = if is_wrong { usize::MAX } else { ENOUGH }.min(self.config.max_trials as usize);
        if next <= own.batch || most <= self.trials.len() {
            let limit = match best.batch {
                batch if batch == self.config.batch_max => Limit::BatchMax,
                // What is between has neither run nor a bound that counts.
                _ if is_wrong && own.batch < next => Limit::Trials,
                _ => Limit::Memory,
            };
            return Ok(self.found(best, limit));
        }
        Ok(Search::Try { batch: next, upper: upper(next) })
    }
}
