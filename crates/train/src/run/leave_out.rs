//! Samples that alone do not fit.

use plimsoll_types::Bytes;
use serde::{Deserialize, Serialize};

use super::{Run, wanted};
use crate::error::TrainError;
use crate::job::Job;
use crate::loader::{BadSample, StepSamples};
use crate::source::Source;
use crate::stopwatch::Lap;

/// What has to come on top of what there was, as one part of it in so many, before samples are tried again: what others
/// take and return moves the budget by less all the time.
const MORE: u64 = 10;

/// Which samples are left out because one of them alone does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unfit {
    /// All whose own length is padded to this edge or a longer one.
    edge: u32,
    /// What there was for it; with much more they are tried again.
    budget: Bytes,
}

impl Unfit {
    /// Says that nothing longer than this edge fits into a budget.
    pub(super) fn beyond(longest: u32, budget: Bytes) -> Self {
        Self { edge: longest.saturating_add(1), budget }
    }

    /// Returns the longest edge that is not left out; `None` where this budget is worth another try.
    pub(super) fn longest(&self, budget: Bytes) -> Option<u32> {
        self.holds(budget).then(|| self.edge.saturating_sub(1))
    }

    fn holds(&self, budget: Bytes) -> bool {
        budget.saturating_sub(self.budget) <= Bytes(self.budget.0 / MORE)
    }

    /// Returns what holds of what a checkpoint says and of what is known now.
    pub(super) fn stricter(then: Option<Self>, now: Option<Self>) -> Option<Self> {
        match (then, now) {
            (Some(then), Some(now)) if then.edge < now.edge && then.holds(now.budget) => Some(then),
            (then, now) => now.or(then),
        }
    }
}

type Samples<J> = StepSamples<<<J as Job>::Source as Source>::Buffer>;

impl<J: Job> Run<'_, J> {
    /// Returns the samples of the next step, without those that are known not to fit.
    pub(super) fn next_samples(&mut self) -> Result<Samples<J>, TrainError> {
        loop {
            let wanted = wanted(&self.controller);
            let samples = self.stopwatch.time(Lap::Sampler, || self.loader.next(&wanted))?;
            let (longest, budget) = (samples.draw.parts.iter().map(|it| it.edge).max(), self.budget.budget);
            let Some(Unfit { edge, .. }) = self.unfit.filter(|it| it.holds(budget) && Some(it.edge) <= longest) else {
                return Ok(samples);
            };
            if let Some(rest) = self.without_unfit(samples, edge)? {
                return Ok(rest);
            }
        }
    }

    /// Leaves out what one sample alone has shown not to fit, where samples may be left out and others are shorter.
    pub(super) fn leave_out(&mut self, samples: Samples<J>, error: TrainError) -> Result<Samples<J>, TrainError> {
        let TrainError::NeverFits { edge, ref sample, .. } = error else { return Err(error) };
        let config = self.config;
        let is_shortest = config.loader.edges.first().is_none_or(|it| edge <= *it);
        if config.loader.bad_sample == BadSample::Fail || config.deterministic || is_shortest {
            return Err(error);
        }
        self.unfit = Some(Unfit { edge, budget: self.budget.budget });
        (self.warn)(&format!(
            "samples of edge {edge} and above are left out: {} alone does not fit, and `data.bad_sample` is \"skip\"",
            sample.name
        ));
        match self.without_unfit(samples, edge)? {
            Some(rest) => Ok(rest),
            None => self.next_samples(),
        }
    }

    /// Collates a step anew without what does not fit; `None` where nothing is left of it.
    ///
    /// Shorter samples that were padded with those that are left out stay, and are padded to less.
    fn without_unfit(&mut self, mut samples: Samples<J>, edge: u32) -> Result<Option<Samples<J>>, TrainError> {
        let longest = self.config.loader.edges.iter().copied().filter(|it| *it < edge).max().unwrap_or(0);
        let sized = samples.draw.ids().zip(&samples.lengths);
        let ids: Vec<_> = sized.filter(|(_, length)| longest < **length).map(|(id, _)| id).collect();
        samples.draw.parts.iter_mut().filter(|it| edge <= it.edge).for_each(|it| it.edge = longest);
        let samples = self.loader.without(samples, &ids)?;
        if samples.draw.parts.is_empty() {
            self.loader.leave_out(samples)?;
            return Ok(None);
        }
        Ok(Some(samples))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_tried_again_with_much_more_memory_and_not_with_a_little() {
        let unfit = Unfit::beyond(24, Bytes::mib(100));
        for (budget, longest) in [(50, Some(24)), (100, Some(24)), (110, Some(24)), (111, None)] {
            assert_eq!(unfit.longest(Bytes::mib(budget)), longest, "{budget} MiB");
        }
    }

    #[test]
    fn a_checkpoint_says_more_only_where_it_still_holds() {
        let unfit = |longest, mib| Some(Unfit::beyond(longest, Bytes::mib(mib)));
        for (then, now, expected) in [
            (None, None, None),
            (unfit(8, 100), None, unfit(8, 100)),
            (None, unfit(8, 100), unfit(8, 100)),
            (unfit(8, 100), unfit(16, 100), unfit(8, 100)),
            (unfit(16, 100), unfit(8, 100), unfit(8, 100)),
            // It was of less memory than there is now.
            (unfit(8, 100), unfit(16, 400), unfit(16, 400)),
        ] {
            assert_eq!(Unfit::stricter(then, now), expected);
        }
    }
}
