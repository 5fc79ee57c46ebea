//! What an allocator reserves for a step that was neither run nor planned.

use plimsoll_types::{Bytes, Features, StepShape};
use serde::{Deserialize, Serialize};

use super::MEMORY;
use crate::certificate::ShapeNeed;
use crate::model::{Model, Need};
use crate::recent::{Recent, factor, parts};
use crate::{PredictError, PredictorConfig, ReservedObservation, page_for};

/// Factor on the bound of the peak in use, for the rounding of allocations: see [`PredictorConfig::rounding_margin`].
const ROUNDING: f64 = 1.01;

/// The bare bounds: rounding is applied to what is resident as well, and pages are what is added here.
const fn bare(features: Features) -> PredictorConfig {
    PredictorConfig { rounding_margin: 0.0, regime_margin: 1.0, beside: Bytes::ZERO, features }
}

/// The certificate route from in-use to reserved: bounds of peak and largest allocation, and the worst packing of late.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Packing {
    features: Features,
    in_use: Model,
    largest: Model,
    /// What was resident before observed steps.
    resident: Recent,
    /// How much was reserved for how much in use, as [`parts`]; a ratio below 1 counts as 1.
    ratio: Recent,
}

impl Packing {
    /// Starts without an observation.
    pub(crate) fn new(features: Features) -> Self {
        let model = || Model::new(features, false);
        let (resident, ratio) = (Recent::default(), Recent::default());
        Self { features, in_use: model(), largest: model(), resident, ratio }
    }

    /// Refuses a shape over other axes than the features.
    pub(crate) fn check(&self, shape: StepShape) -> Result<(), PredictError> {
        let n_axes = self.features.n_axes();
        if self.features.fit(shape) { Ok(()) } else { Err(PredictError::OtherAxes { shape, n_axes }) }
    }

    /// Learns a step; its shape and sizes have been checked.
    pub(crate) fn observe(&mut self, it: ReservedObservation) -> Result<(), PredictError> {
        let config = bare(self.features);
        self.largest.learn(ShapeNeed { shape: it.shape, need: it.largest }, 0, Bytes::ZERO, &config)?;
        if let Some(peak) = it.in_use {
            let need = peak.saturating_sub(it.resident);
            self.in_use.learn(ShapeNeed { shape: it.shape, need }, 0, Bytes::ZERO, &config)?;
            self.resident.push(it.resident.0, MEMORY);
            self.ratio.push(parts(it.reserved.share_of(peak)), MEMORY);
        }
        Ok(())
    }

    /// Returns the bounds of the reserved bytes of a step that begins with so much in use, or `None` before the first peak
    /// in use.
    pub(crate) fn need(&self, shape: StepShape, resident: Bytes) -> Option<Need> {
        self.check(shape).ok()?;
        if self.in_use.n_shapes() == 0 {
            return None;
        }
        let config = bare(self.features);
        let need = self.in_use.need(shape, 1.0, &config);
        let (resident, ratio) = (resident.max(Bytes(self.resident.most())), factor(self.ratio.most()));
        let packed = |peak: Bytes| resident.saturating_add(peak).as_f64() * ratio;
        let half_page = page_for(self.largest.need(shape, 1.0, &config).upper).as_f64() / 2.0;
        let upper = Bytes::from_f64_ceil(packed(need.upper) * ROUNDING + half_page);
        Some(Need { upper, expected: Bytes::from_f64_ceil(packed(need.expected)).min(upper) })
    }
}

impl Default for Packing {
    fn default() -> Self {
        Self::new(Features::default())
    }
}
