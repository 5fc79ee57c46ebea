//! The search where bounds follow from the trials themselves.

use crate::climb::Climb;
use crate::finder::{Bound, Search};
use crate::{Finder, FinderError};

impl Finder {
    /// Starts above the path of small batches, and goes into it only when that was too much.
    pub(crate) fn by_probes(&self, bound: Bound<'_>) -> Result<Search, FinderError> {
        let (small, large) = (self.config.small(), self.config.large());
        let next_path = large.as_ref().map(|it| *it.start());
        match large {
            Some(large) if self.trials.have(*large.start()) => {
                if let Some(standing) = self.trials.standing(&large, self.budget()) {
                    return Ok(Climb::new(self, large, standing, bound).next());
                }
            }
            Some(large) if small.is_none() || (self.config.survives && self.trials.len() == 0) => {
                return Ok(Search::Try { batch: *large.start(), upper: None });
            }
            _ => (),
        }
        let Some(small) = small else { return Err(self.nothing_fits(self.config.batch_min)) };
        if !self.trials.have(*small.start()) {
            return Ok(Search::Try { batch: *small.start(), upper: None });
        }
        let Some(standing) = self.trials.standing(&small, self.budget()) else {
            return Err(self.nothing_fits(*small.start()));
        };
        // Only an assumption bounds a path by the other one, so that no more of it is tried than its smallest batch.
        if let Some(batch) = next_path.filter(|it| !self.trials.have(*it))
            && let Some(upper) = self.upper(batch, bound).filter(|it| *it <= self.budget())
        {
            return Ok(Search::Try { batch, upper: Some(upper) });
        }
        Ok(Climb::new(self, small, standing, bound).next())
    }
}
