//! What is known of a program's needs.

use plimsoll_predict::{Key, PartReading, Phase, Platform, PredictError, Predictor, PredictorConfig};
use plimsoll_step::RanPart;
use plimsoll_types::{Attempt, Bytes, Observation, Prediction, StepShape};

/// What steps have shown so far.
pub(crate) struct Known {
    pub(crate) predictor: Predictor,
    /// Parts that the device refused, without a figure that could be learnt.
    pub(crate) refused: Vec<StepShape>,
    pub(crate) platform: Platform,
    /// Batches up to this many samples run other kernels than larger ones.
    pub(crate) small_batch: u32,
    pub(crate) checkpointing: bool,
    pub(crate) has_exact_peaks: bool,
    pub(crate) config: PredictorConfig,
}

impl Known {
    /// Predicts what a part reaches that finds so much in use.
    pub(crate) fn predict(&self, shape: StepShape, resident: Bytes) -> Option<Prediction> {
        self.predictor.predict(self.key(shape), shape, resident)
    }

    /// Whether a part is certain to fit.
    pub(crate) fn fits(&self, shape: StepShape, resident: Bytes, budget: Bytes) -> bool {
        let is_refused = self.refused.iter().any(|it| shape.covers(*it));
        !is_refused && self.predict(shape, resident).is_some_and(|it| it.upper <= budget)
    }

    /// Learns from parts that ran out of memory.
    pub(crate) fn learn_failures(&mut self, failures: &[Attempt]) -> Result<(), PredictError> {
        for it in failures {
            match self.read(it.shape, it.resident, it.peak, it.nodes) {
                Some(read) => drop(self.predictor.observe_step(&[read], Bytes::ZERO)?),
                None => self.refused.push(it.shape),
            }
        }
        Ok(())
    }

    /// Learns what each part needed, of a step that kept so much.
    pub(crate) fn learn(&mut self, parts: &[RanPart], kept: Bytes) -> Result<(), PredictError> {
        let read = |it: &RanPart| self.read(it.part.shape(), it.resident, it.peak, it.nodes);
        let read: Vec<_> = parts.iter().filter_map(read).collect();
        self.predictor.observe_step(&read, kept).map(drop)
    }

    /// Begins again, with another model or another state of its optimizer.
    pub(crate) fn forget(&mut self) -> Result<(), PredictError> {
        self.refused.clear();
        self.predictor = Predictor::try_new(self.config)?;
        Ok(())
    }

    fn read(&self, shape: StepShape, resident: Bytes, peak: Option<Bytes>, nodes: u64) -> Option<(Key, PartReading)> {
        let read = PartReading::of(Observation { shape, resident, peak: peak? }, self.has_exact_peaks);
        Some((self.key(shape), read.with_nodes(nodes)))
    }

    fn key(&self, shape: StepShape) -> Key {
        let regime = u16::from(shape.samples <= self.small_batch);
        Key { phase: Phase::Train, checkpointing: self.checkpointing, platform: self.platform, regime }
    }
}
