//! What an allocator reserves for a step that was neither run nor planned.

use plimsoll_types::{Bytes, StepShape};
use serde::{Deserialize, Serialize};

use crate::certificate::{Certificate, ShapeNeed};
use crate::model::{Model, Need};
use crate::{PredictError, PredictorConfig, ReservedObservation, page_for};

/// Factor on the bound of the peak in use, for the rounding of allocations: see [`PredictorConfig::rounding_margin`].
const ROUNDING: f64 = 1.01;

/// The bare bounds: rounding is applied to what is resident as well, and pages are what is added here.
const BARE: PredictorConfig = PredictorConfig { rounding_margin: 0.0, regime_margin: 1.0, page: Bytes::ZERO };

/// The certificate route from in-use to reserved: bounds of peak and largest allocation, and the worst packing seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "State", into = "State")]
pub(crate) struct Packing {
    in_use: Option<Model>,
    largest: Option<Model>,
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
    /// Learns a step; its sizes have been checked.
    pub(crate) fn observe(&mut self, it: ReservedObservation) -> Result<(), PredictError> {
        learn(&mut self.largest, ShapeNeed { shape: it.shape, need: it.largest })?;
        if let Some(peak) = it.in_use {
            learn(&mut self.in_use, ShapeNeed { shape: it.shape, need: peak.saturating_sub(it.resident) })?;
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
        let (in_use, largest, worst) = (self.in_use.as_ref()?, self.largest.as_ref()?, self.worst?);
        let need = in_use.need(shape, 1.0, &BARE);
        let packed = |peak: Bytes| self.resident.saturating_add(peak).as_f64() * worst.ratio();
        let half_page = page_for(largest.need(shape, 1.0, &BARE).upper).as_f64() / 2.0;
        let upper = Bytes::from_f64_ceil(packed(need.upper) * ROUNDING + half_page);
        Some(Need { upper, expected: Bytes::from_f64_ceil(packed(need.expected)).min(upper) })
    }
}

impl Worst {
    fn ratio(self) -> f64 {
        self.reserved.share_of(self.in_use)
    }
}

fn learn(model: &mut Option<Model>, observed: ShapeNeed) -> Result<(), PredictError> {
    if !model.as_ref().is_some_and(|it| it.certificate().knows(observed)) {
        *model = Some(Model::learn(model.as_ref(), observed, &BARE)?.0);
    }
    Ok(())
}

/// A packing as it is written: observations only.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    in_use: Certificate,
    largest: Certificate,
    resident: Bytes,
    worst: Option<Worst>,
}

impl From<Packing> for State {
    fn from(packing: Packing) -> Self {
        let kept = |model: Option<Model>| model.map_or_else(Certificate::default, |it| it.certificate().clone());
        let Packing { in_use, largest, resident, worst } = packing;
        Self { in_use: kept(in_use), largest: kept(largest), resident, worst }
    }
}

impl From<State> for Packing {
    fn from(state: State) -> Self {
        let State { in_use, largest, resident, worst } = state;
        Self { in_use: Model::restored(in_use, &BARE), largest: Model::restored(largest, &BARE), resident, worst }
    }
}
