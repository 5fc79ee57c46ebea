//! The search where bounds follow from real steps.

use plimsoll_finder::{Finder, Found, Outcome, Search, Source};
use plimsoll_predict::{PartReading, Predictor};
use plimsoll_types::{Bytes, Observation, Prediction, StepShape};

use super::{BatchSearch, FindError, Finding, Tried, is_settled, tried};
use crate::TrialError;

/// Runs one real step of a shape.
type RealStep<'a> = &'a mut dyn FnMut(StepShape) -> Result<Tried, TrialError>;

/// Searches by real steps.
pub(super) fn by_probes(finding: &Finding<'_>, finder: &mut Finder, step: RealStep<'_>) -> Result<Found, FindError> {
    let mut predictor = Predictor::try_new(finding.predictor)?;
    let key = |shape| finding.keys.key(finding.phase, shape);
    let (host, extent) = (finding.host, finding.finder.extent);
    let mut own = Bytes::ZERO;
    loop {
        let bound =
            |shape| -> Option<Prediction> { predictor.predict(key(shape), shape, own.saturating_add(host(shape))) };
        let batch = match finder.search(Source::Probe(&bound))? {
            Search::Found(found) => return Ok(found),
            Search::Try { batch, .. } => batch,
        };
        let shape = StepShape::of(batch, extent);
        let Tried { outcome, page, nodes, packed, .. } = step(shape)?;
        if let Outcome::Measured { resident, peak } = outcome {
            own = resident.saturating_sub(host(shape)).max(own);
            let read = PartReading::of(Observation { shape, resident, peak }, finding.exact_peaks, page);
            predictor.observe_step(&[(key(shape), read.with_nodes(nodes).with_packed(packed))], Bytes::ZERO)?;
        }
        finder.on_trial(batch, outcome)?;
    }
}

impl BatchSearch<'_> {
    pub(super) fn by_probes(&mut self) -> Result<Found, FindError> {
        let (finding, mut finder) = (self.finding, self.finder.clone());
        by_probes(finding, &mut finder, &mut |shape| self.settled(shape))
    }

    /// Runs a step, and once more where it made what stays: the optimizer's state, thread pools and packing buffers.
    ///
    /// Such a reading is safe, but by so much too high that the least that a sample adds cannot be read off it.
    fn settled(&mut self, shape: StepShape) -> Result<Tried, TrialError> {
        let Self { finding, steps, on_tried, n_repeated, .. } = self;
        let n_samples = (finding.n_samples)(shape);
        tried(shape, on_tried, || {
            let first = steps.run(finding.phase, shape, n_samples)?;
            if is_settled(&first) {
                return Ok(first);
            }
            *n_repeated += 1;
            steps.run(finding.phase, shape, n_samples)
        })
    }
}
