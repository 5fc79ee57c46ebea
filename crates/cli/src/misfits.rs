//! Which samples a refusal is about.

use plimsoll_plan::PlanError;
use plimsoll_predict::Phase;
use plimsoll_train::{Job, Source as _};

use crate::prepare::{Prepared, some_of};

/// Names of samples in a refusal: enough to find the others by.
const NAMES: usize = 3;

impl<J: Job> Prepared<J> {
    /// Names the samples that are longer than what is certain to fit, where that is why a run or a search is refused.
    pub(crate) fn naming(&self, mut error: PlanError) -> PlanError {
        if let PlanError::OutOfReach { phase: Phase::Train, largest: (largest, _), advice, .. } = &mut error {
            let extent = largest.extent();
            let mut longer: Vec<_> = (0..).zip(&self.extents).filter(|(_, own)| !extent.covers(**own)).collect();
            longer.sort_by_key(|(id, own)| (std::cmp::Reverse((own.positions(), **own)), *id));
            if !longer.is_empty() {
                let names = longer.iter().map(|(id, _)| self.job.source().describe(*id));
                *advice = format!("{advice}; longer than {extent}: {}", some_of(names, NAMES, "others"));
            }
        }
        error
    }
}
