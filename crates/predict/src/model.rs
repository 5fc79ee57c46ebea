//! What one key has taught.

use plimsoll_types::{Bytes, StepShape};

use crate::certificate::{Certificate, ShapeNeed};
use crate::estimate::{dot, fit};
use crate::simplex::Vector;
use crate::{PredictError, PredictorConfig};

/// The bound and the estimate of one key, both functions of its observations alone.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Model {
    certificate: Certificate,
    /// Coefficients of the point estimate, in bytes per feature.
    theta: Vector,
    /// The smallest factor, at least 1, that lifts the upper bound over every need that is kept.
    scale: f64,
}

/// What a step needs above what is resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Need {
    pub(crate) upper: Bytes,
    pub(crate) expected: Bytes,
}

impl Model {
    fn new(certificate: Certificate, config: &PredictorConfig) -> Self {
        let theta = fit(&certificate);
        let stretch = |it: &ShapeNeed| {
            let bare = certificate.value(it.shape) * (1.0 + config.rounding_margin);
            it.need.saturating_sub(config.page).as_f64() / bare
        };
        let scale = certificate.needs().iter().map(stretch).fold(1.0, f64::max);
        Self { certificate, theta, scale }
    }

    pub(crate) fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Returns the need of a shape, with the certificate widened `margin` times.
    pub(crate) fn need(&self, shape: StepShape, margin: f64, config: &PredictorConfig) -> Need {
        let bound = self.bound(shape);
        let upper = Bytes::from_f64_ceil(bound * margin * (1.0 + config.rounding_margin)).saturating_add(config.page);
        let point = Bytes::from_f64_ceil(dot(&self.theta, &self.certificate.features().of(shape)).min(bound));
        Need { upper, expected: point.max(self.certificate.lower(shape)).min(upper) }
    }

    /// Returns the factor that the certificate lacks where the observation is above its upper bound.
    fn violation(&self, observed: ShapeNeed, config: &PredictorConfig) -> Option<f64> {
        let is_above = observed.need > self.need(observed.shape, 1.0, config).upper;
        let without_page = observed.need.saturating_sub(config.page).as_f64();
        is_above.then(|| without_page / (self.bound(observed.shape) * (1.0 + config.rounding_margin)))
    }

    fn bound(&self, shape: StepShape) -> f64 {
        self.certificate.ceiling(shape) * self.scale
    }

    /// Returns the model after one more observation, and the factor by which a violation widened it.
    pub(crate) fn learn(
        known: Option<&Self>,
        it: ShapeNeed,
        config: &PredictorConfig,
    ) -> Result<(Self, Option<f64>), PredictError> {
        let factor = known.and_then(|model| model.violation(it, config));
        let mut certificate =
            known.map_or_else(|| Certificate::new(config.features), |model| model.certificate.clone());
        certificate.widen(factor.unwrap_or(1.0));
        certificate.observe(it)?;
        Ok((Self::new(certificate, config), factor))
    }

    /// Returns the model of the needs that were kept, or `None` without one.
    pub(crate) fn restored(certificate: Certificate, config: &PredictorConfig) -> Option<Self> {
        (!certificate.needs().is_empty()).then(|| Self::new(certificate, config))
    }
}
