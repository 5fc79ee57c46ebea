//! The real predictor, fed as a run feeds it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use plimsoll_predict::{Dtype, Key, Phase, Platform, PredictError, Predictor, PredictorConfig};
use plimsoll_types::{Bytes, Observation, Prediction, StepShape};

use super::device::RESIDENT;

const PLATFORM: Platform = Platform { device: 0, dtype: Dtype::F32, fusion: false, autotune: false };
const KEY: Key = Key { phase: Phase::Train, checkpointing: false, platform: PLATFORM, regime: 0 };

/// What a run has learnt; asked for the same shape twice, it computes the bound once.
pub(super) struct Learnt {
    predictor: Predictor,
    asked: RefCell<BTreeMap<StepShape, Option<Prediction>>>,
}

impl Learnt {
    pub(super) fn new() -> Result<Self, PredictError> {
        Ok(Self { predictor: Predictor::try_new(PredictorConfig::default())?, asked: RefCell::default() })
    }

    pub(super) fn learn(&mut self, shape: StepShape, peak: Bytes) -> Result<(), PredictError> {
        let before = self.predictor.clone();
        self.predictor.observe(KEY, Observation { shape, resident: RESIDENT, peak })?;
        if self.predictor != before {
            self.asked.borrow_mut().clear();
        }
        Ok(())
    }

    pub(super) fn predict(&self, shape: StepShape) -> Option<Prediction> {
        let mut asked = self.asked.borrow_mut();
        *asked.entry(shape).or_insert_with(|| self.predictor.predict(KEY, shape, RESIDENT))
    }

    pub(super) fn predictor(&self) -> &Predictor {
        &self.predictor
    }
}
