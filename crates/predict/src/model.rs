//! What one key has taught.

use std::collections::BTreeMap;

use plimsoll_types::{Bytes, Features, StepShape};
use serde::{Deserialize, Serialize};

use crate::certificate::{Certificate, ShapeNeed};
use crate::estimate::{dot, fit};
use crate::judged::Judged;
use crate::recent::{Recent, factor, parts};
use crate::simplex::Vector;
use crate::{PredictError, PredictorConfig};

/// Readings of one shape that count for its need: the largest of the last 16 to 32.
///
/// 16: of readings with up to 5 % of even noise, one in a hundred is more than 1 % above 16 others.
const READINGS: u32 = 16;

/// Readings of any shape for which one that contradicts the others stretches the bound: the last 48 to 96.
///
/// 48: a run of one shape is back at its line within 200 steps after a transient peak, the way of its policy included.
const MEMORY: u32 = 48;

/// A need that the bound of the others lies so near above is implied by them.
const IMPLIED: f64 = 5e-7;

/// The bound and the estimate of one key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "State", into = "State")]
pub(crate) struct Model {
    certificate: Certificate,
    /// Of each shape that the certificate keeps, what was read of it lately.
    readings: BTreeMap<StepShape, Readings>,
    /// The factors, as [`parts`], that lift the bound over what was read lately.
    stretch: Recent,
    n_observations: u64,
    n_violations: u64,
    /// Whether all there is comes from a step that kept much of what it read.
    is_provisional: bool,
    /// Coefficients of the point estimate, in bytes per feature.
    theta: Vector,
    judged: Judged<Judgement>,
}

/// What was read of one shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Readings {
    needs: Recent,
    /// The observation of the key at which it is looked at whether the shape is still worth keeping.
    due: u64,
}

/// What a step needs above what is resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Need {
    pub(crate) upper: Bytes,
    pub(crate) expected: Bytes,
}

/// What the readings say of a shape, without margins, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Judgement {
    bound: f64,
    point: f64,
    lower: Bytes,
}

impl Model {
    pub(crate) fn new(features: Features) -> Self {
        Self {
            certificate: Certificate::new(features),
            readings: BTreeMap::new(),
            stretch: Recent::default(),
            n_observations: 0,
            n_violations: 0,
            is_provisional: false,
            theta: Vector::default(),
            judged: Judged::default(),
        }
    }

    /// Whether all that is known holds what a first step kept.
    pub(crate) fn is_provisional(&self) -> bool {
        self.is_provisional
    }

    /// Returns how many shapes are kept.
    pub(crate) fn n_shapes(&self) -> usize {
        self.certificate.needs().len()
    }

    /// Returns how many readings were above their bound.
    pub(crate) fn n_violations(&self) -> u64 {
        self.n_violations
    }

    /// Returns the need of a shape, with the certificate widened `margin` times.
    pub(crate) fn need(&self, shape: StepShape, margin: f64, config: &PredictorConfig) -> Need {
        let it = self.judgement(shape);
        let bound = it.bound * factor(self.stretch.most());
        let upper = Bytes::from_f64_ceil(bound * margin * (1.0 + config.rounding_margin)).saturating_add(config.beside);
        let upper = upper.max(it.lower);
        Need { upper, expected: Bytes::from_f64_ceil(it.point).min(upper).max(it.lower) }
    }

    fn judgement(&self, shape: StepShape) -> Judgement {
        self.judged.get(shape, || {
            let bound = self.certificate.ceiling(shape);
            let point = dot(&self.theta, &self.certificate.features().of(shape)).min(bound);
            Judgement { bound, point, lower: self.certificate.lower(shape) }
        })
    }

    /// Returns the factor that a bound lacks for a reading of this need.
    fn lacking(bound: f64, need: Bytes, config: &PredictorConfig) -> f64 {
        need.saturating_sub(config.beside).as_f64() / (bound * (1.0 + config.rounding_margin))
    }

    /// Learns one more need, and returns the factor by which a violation has widened the key.
    ///
    /// A reading that is not `clean` holds what its step kept for good, and is too high by that: it serves only while
    /// nothing else is known, or where it is above its bound.
    pub(crate) fn learn(
        &mut self,
        it: ShapeNeed,
        is_clean: bool,
        config: &PredictorConfig,
    ) -> Result<Option<f64>, PredictError> {
        self.certificate.check(it)?;
        let is_first = self.n_shapes() == 0;
        let is_above = !is_first && self.need(it.shape, 1.0, config).upper < it.need;
        if !is_clean && !is_first && !self.is_provisional && !is_above {
            return Ok(None);
        }
        let mut widened = is_above.then(|| {
            let bound = self.judgement(it.shape).bound * factor(self.stretch.most());
            Self::lacking(bound, it.need, config).max(1.0)
        });
        self.n_violations += u64::from(is_above);
        if is_clean && self.is_provisional {
            // What was known until now was too high, and is not worth widening.
            *self = Self { n_violations: self.n_violations, ..Self::new(config.features) };
            widened = widened.map(|_| 1.0);
        } else {
            self.is_provisional = !is_clean && (is_first || self.is_provisional);
            self.widen(widened.unwrap_or(1.0));
        }
        self.n_observations += 1;
        self.keep(it);
        let lacking = Self::lacking(self.judgement(it.shape).bound, it.need, config);
        self.stretch.push(parts(lacking), MEMORY);
        self.look_again();
        Ok(widened)
    }

    fn widen(&mut self, factor: f64) {
        if factor > 1.0 {
            self.certificate.widen(factor);
            self.readings.values_mut().for_each(|it| it.needs.widen(factor));
            self.on_change();
        }
    }

    /// Takes a reading into those of its shape, which is kept unless the others tell more.
    fn keep(&mut self, it: ShapeNeed) {
        let due = self.n_observations + u64::from(2 * MEMORY);
        if let Some(known) = self.readings.get_mut(&it.shape) {
            let was = known.needs.most();
            known.needs.push(it.need.0, READINGS);
            known.due = due;
            let now = Bytes(known.needs.most());
            if now.0 != was {
                self.certificate.place(it.shape).into_iter().for_each(|at| self.certificate.replace(at, now));
                self.on_change();
            }
            return;
        }
        if self.certificate.push(it) {
            if self.n_shapes() <= self.readings.len() {
                let needs = self.certificate.needs();
                self.readings.retain(|shape, _| needs.iter().any(|it| it.shape == *shape));
            }
            let mut needs = Recent::default();
            needs.push(it.need.0, READINGS);
            self.readings.insert(it.shape, Readings { needs, due });
            self.on_change();
        }
    }

    /// Drops a shape that was not read for long and whose need the others imply, or contradict: what is newer counts.
    fn look_again(&mut self) {
        let Some((shape, old)) = self.readings.iter_mut().min_by_key(|(_, it)| it.due) else { return };
        if self.n_observations < old.due {
            return;
        }
        old.due = self.n_observations + u64::from(MEMORY);
        let (shape, need) = (*shape, Bytes(old.needs.most()).as_f64());
        let Some(at) = self.certificate.place(shape) else { return };
        if self.certificate.by_others(at) <= need * (1.0 + IMPLIED) {
            self.certificate.forget(at);
            self.readings.remove(&shape);
            self.on_change();
        }
    }

    fn on_change(&mut self) {
        self.theta = fit(&self.certificate);
        self.judged.clear();
    }
}

/// A model as it is written: what was read, and nothing that follows from it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    certificate: Certificate,
    /// In the order of the certificate's.
    readings: Vec<Readings>,
    stretch: Recent,
    n_observations: u64,
    n_violations: u64,
    is_provisional: bool,
}

impl From<Model> for State {
    fn from(model: Model) -> Self {
        let Model { certificate, readings, stretch, n_observations, n_violations, is_provisional, .. } = model;
        let readings = certificate.needs().iter().map(|it| readings.get(&it.shape).copied().unwrap_or_default());
        let readings = readings.collect();
        Self { certificate, readings, stretch, n_observations, n_violations, is_provisional }
    }
}

impl From<State> for Model {
    fn from(state: State) -> Self {
        let State { certificate, readings, stretch, n_observations, n_violations, is_provisional } = state;
        let theta = fit(&certificate);
        let readings = certificate.needs().iter().map(|it| it.shape).zip(readings).collect();
        let judged = Judged::default();
        Self { certificate, readings, stretch, n_observations, n_violations, is_provisional, theta, judged }
    }
}
