//! What an allocator reserves for a step that was neither run nor planned.

use plimsoll_types::{Bytes, Features, StepShape};
use serde::{Deserialize, Serialize};

use crate::certificate::ShapeNeed;
use crate::model::{Model, Need};
use crate::{PredictError, PredictorConfig, ReservedObservation, page_for};

/// Factor on the bound of the peak in use, for the rounding of allocations: see [`PredictorConfig::rounding_margin`].
const ROUNDING: f64 = 1.01;

/// The bare bounds: rounding is applied to what is resident as well, and pages are what is added here.
const fn bare(features: Features) -> PredictorConfig {
    PredictorConfig { rounding_margin: 0.0, regime_margin: 1.0, page: Bytes::ZERO, features }
}

/// The certificate route from in-use to reserved: bounds of peak and largest allocation, and the worst packing seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Packing {
    features: Features,
    in_use: Model,
    largest: Model,
    /// The most that was resident before any observed step.
    resident: Bytes,
    /// The pair with the largest ratio; a ratio below 1 counts as 1.
    worst: Option<Worst>,
}

/// How much was reserved for how much in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Worst {
    reserved: Bytes,
    in_use: Bytes,
}

impl Packing {
    /// Starts without an observation.
    pub(crate) fn new(features: Features) -> Self {
        let model = || Model::new(features);
        Self { features, in_use: model(), largest: model(), resident: Bytes::ZERO, worst: None }
    }

    /// Refuses a shape over other axes than the features.
    pub(crate) fn check(&self, shape: StepShape) -> Result<(), PredictError> {
        let n_axes = self.features.n_axes();
        if self.features.fit(shape) { Ok(()) } else { Err(PredictError::OtherAxes { shape, n_axes }) }
    }

    /// Learns a step; its shape and sizes have been checked.
    pub(crate) fn observe(&mut self, it: ReservedObservation) -> Result<(), PredictError> {
        let config = bare(self.features);
        self.largest.learn(ShapeNeed { shape: it.shape, need: it.largest }, true, &config)?;
        if let Some(peak) = it.in_use {
            let need = peak.saturating_sub(it.resident);
            self.in_use.learn(ShapeNeed { shape: it.shape, need }, true, &config)?;
            self.resident = self.resident.max(it.resident);
            let seen = Worst { reserved: it.reserved.max(peak), in_use: peak };
            self.worst = Some(self.worst.filter(|worst| worst.ratio() >= seen.ratio()).unwrap_or(seen));
        }
        Ok(())
    }

    /// Multiplies the worst ratio, and so the bound but for its half page.
    pub(crate) fn widen(&mut self, factor: f64) {
        if let Some(worst) = &mut self.worst {
            worst.reserved = Bytes::from_f64_ceil(worst.reserved.as_f64() * factor);
        }
    }

    /// Returns the bounds of a step's reserved bytes, or `None` before the first peak in use.
    pub(crate) fn need(&self, shape: StepShape) -> Option<Need> {
        self.check(shape).ok()?;
        let worst = self.worst?;
        let config = bare(self.features);
        let need = self.in_use.need(shape, 1.0, &config);
        let packed = |peak: Bytes| self.resident.saturating_add(peak).as_f64() * worst.ratio();
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

impl Worst {
    fn ratio(self) -> f64 {
        self.reserved.share_of(self.in_use)
    }
}
