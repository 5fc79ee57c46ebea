//! Samples that alone do not fit.

use plimsoll_types::Bytes;
use serde::{Deserialize, Serialize};

use super::{Run, wanted};
use crate::error::TrainError;
use crate::job::Job;
use crate::loader::{BadSample, StepSamples};
use crate::source::Source;
use crate::stopwatch::Lap;

/// Which samples are left out because one of them alone did not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unfit {
    /// All that are padded to this edge or a longer one.
    edge: u32,
    /// What there was for it; with more they are tried again.
    budget: Bytes,
}

type Samples<J> = StepSamples<<<J as Job>::Source as Source>::Buffer>;

impl<J: Job> Run<'_, J> {
    /// Returns the samples of the next step, without those that are known not to fit.
    pub(super) fn next_samples(&mut self) -> Result<Samples<J>, TrainError> {
        let wanted = wanted(&self.controller);
        let samples = self.stopwatch.time(Lap::Sampler, || self.loader.next(&wanted))?;
        let (longest, budget) = (samples.draw.parts.iter().map(|it| it.edge).max(), self.budget.budget);
        match self.unfit.filter(|it| budget <= it.budget && Some(it.edge) <= longest) {
            Some(Unfit { edge, .. }) => self.without_unfit(samples, edge),
            None => Ok(samples),
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
        self.without_unfit(samples, edge)
    }

    /// Collates a step anew without what does not fit, or takes the next one where nothing is left of it.
    fn without_unfit(&mut self, samples: Samples<J>, edge: u32) -> Result<Samples<J>, TrainError> {
        let parts = samples.draw.parts.iter().filter(|it| edge <= it.edge);
        let ids: Vec<_> = parts.flat_map(|it| it.ids.iter().copied()).collect();
        let samples = self.loader.without(samples, &ids)?;
        if samples.draw.parts.is_empty() {
            self.loader.leave_out(samples)?;
            return self.next_samples();
        }
        Ok(samples)
    }
}
