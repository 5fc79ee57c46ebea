//! The search where bounds follow from real steps.

use plimsoll_finder::{Finder, Found, Outcome, Search, Source};
use plimsoll_predict::{Key, PartReading, Phase, Predictor, PredictorConfig};
use plimsoll_types::{Bytes, Observation, Prediction, StepShape};

use super::{BatchSearch, FindError, Tried, is_settled, tried};
use crate::controller::Keys;
use crate::device::{beside_tensors, has_exact_peaks};
use crate::job::Job;
use crate::source::Source as _;
use crate::trial::TrialError;

/// Runs one real step of a shape.
type RealStep<'a> = &'a mut dyn FnMut(StepShape) -> Result<Tried, TrialError>;

/// Searches by real steps; `host` is what is resident for the samples of a shape, and `exact_peaks` says whether the device
/// tells those, and not merely what its pages hold.
pub(super) fn by_probes(
    finder: &mut Finder,
    mut predictor: Predictor,
    exact_peaks: bool,
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
        let Tried { outcome, nodes, .. } = step(shape)?;
        if let Outcome::Measured { resident, peak } = outcome {
            own = resident.saturating_sub(host(shape)).max(own);
            let read = PartReading::of(Observation { shape, resident, peak }, exact_peaks);
            predictor.observe_step(&[(key(shape), read.with_nodes(nodes))], Bytes::ZERO)?;
        }
        finder.on_trial(batch, outcome)?;
    }
}

impl<J: Job> BatchSearch<'_, J> {
    pub(super) fn by_probes(&mut self, keys: Keys) -> Result<Found, FindError> {
        let (request, source) = (self.request, self.trials.source());
        let loader = request.loader.as_ref().filter(|_| request.phase == Phase::Train);
        if let Some(loader) = loader {
            self.trials.hold_buffers(loader).map_err(TrialError::from)?;
        }
        let host = |shape: StepShape| match request.phase {
            // They are in use before each step, and no other is.
            Phase::Train if loader.is_some() => Bytes::ZERO,
            Phase::Train => {
                let n_samples = request.effective_batch_size.unwrap_or(0).max(shape.samples);
                source.buffer_bytes(shape.with_samples(n_samples))
            }
            Phase::Infer => Bytes::ZERO,
        };
        let (features, beside) = (self.features, beside_tensors(request.device));
        let config = PredictorConfig { features, beside, ..PredictorConfig::default() };
        let (bounds, key) = (Predictor::try_new(config)?, |shape| keys.key(request.phase, shape));
        let (mut finder, edge) = (self.finder.clone(), request.finder.edge);
        let exact_peaks = has_exact_peaks(request.device);
        by_probes(&mut finder, bounds, exact_peaks, edge, key, host, &mut |shape| self.settled(shape))
    }

    /// Runs a step, and once more where it made what stays: the optimizer's state, thread pools and packing buffers.
    ///
    /// Such a reading is safe, but by so much too high that the least that a sample adds cannot be read off it.
    fn settled(&mut self, shape: StepShape) -> Result<Tried, TrialError> {
        let Self { request, trials, on_tried, n_repeated, .. } = self;
        let n_samples = request.effective_batch_size.unwrap_or(shape.samples);
        tried(shape, on_tried, || {
            let first = trials.run(request.phase, shape, n_samples)?;
            if is_settled(&first) {
                return Ok(first);
            }
            *n_repeated += 1;
            trials.run(request.phase, shape, n_samples)
        })
    }
}
