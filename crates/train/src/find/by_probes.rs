//! The search where bounds follow from real steps.

use plimsoll_finder::{Finder, Found, Outcome, Search, Source};
use plimsoll_predict::{Key, Phase, Predictor, PredictorConfig};
use plimsoll_types::{Bytes, Observation, Prediction, StepShape};

use super::{BatchSearch, FindError, Tried};
use crate::controller::Keys;
use crate::job::Job;
use crate::source::Source as _;
use crate::trial::TrialError;

/// Runs one real step of a shape.
type RealStep<'a> = &'a mut dyn FnMut(StepShape) -> Result<Tried, TrialError>;

/// Searches by real steps; `host` is what is resident for the samples of a shape.
pub(super) fn by_probes(
    finder: &mut Finder,
    mut predictor: Predictor,
    edge: u32,
    key: impl Fn(StepShape) -> Key,
    host: impl Fn(StepShape) -> Bytes,
    step: RealStep<'_>,
) -> Result<Found, FindError> {
    let mut own = Bytes::ZERO;
    loop {
        let bound =
            |shape| -> Option<Prediction> { predictor.predict(key(shape), shape, own.saturating_add(host(shape))) };
        let batch = match finder.search(Source::Probe(&bound))? {
            Search::Found(found) => return Ok(found),
            Search::Try { batch, .. } => batch,
        };
        let shape = StepShape::new(batch, edge);
        let Tried { outcome, .. } = step(shape)?;
        if let Outcome::Measured { resident, peak } = outcome {
            own = resident.saturating_sub(host(shape)).max(own);
            predictor.observe(key(shape), Observation { shape, resident, peak })?;
        }
        finder.on_trial(batch, outcome)?;
    }
}

impl<J: Job> BatchSearch<'_, J> {
    pub(super) fn by_probes(&mut self, keys: Keys) -> Result<Found, FindError> {
        let (request, source) = (self.request, self.trials.source());
        let host = |shape: StepShape| match request.phase {
            Phase::Train => {
                let n_samples = request.effective_batch_size.unwrap_or(0).max(shape.samples);
                source.buffer_bytes(shape.with_samples(n_samples))
            }
            Phase::Infer => Bytes::ZERO,
        };
        let config = PredictorConfig { features: self.features, ..PredictorConfig::default() };
        let (bounds, key) = (Predictor::try_new(config)?, |shape| keys.key(request.phase, shape));
        let (mut finder, edge) = (self.finder.clone(), request.finder.edge);
        by_probes(&mut finder, bounds, edge, key, host, &mut |shape| self.real(shape))
    }
}
