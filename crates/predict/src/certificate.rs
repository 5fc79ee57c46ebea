//! A hard upper bound from the peaks of other shapes.

use plimsoll_types::{Bytes, Features, StepShape};
use serde::{Deserialize, Serialize};

use crate::PredictError;
use crate::simplex::{self, MAX_ROWS, Vector};

/// Relative error that the bound adds on top of the linear program's value.
///
/// The simplex neglects less than `1e-11` and a size beyond 8 PiB is rounded by `1e-16` when it becomes a float.
const FLOAT_ERROR: f64 = 1e-9;

/// What a step of one shape needs above what is resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShapeNeed {
    /// Padded shape of the step.
    pub shape: StepShape,
    /// Peak less resident bytes. Too much is safe, too little is not.
    pub need: Bytes,
}

/// A hard upper bound on the need of a fixed program, from what other shapes needed.
///
/// With the features `phi(x)` of a shape and the needs `a_i` of the observed shapes `x_i`,
///
/// ```text
/// bound(x) = max { theta · phi(x) : theta >= 0, theta · phi(x_i) <= a_i for all i }
/// ```
///
/// # Why it holds
///
/// At each instant `t` of a fixed program the live bytes are `theta_t · phi(x)` with `theta_t >= 0`, and the need is
/// their maximum `M(x)` over `t`.
/// Since `theta_t · phi(x_i) <= M(x_i) <= a_i`, each `theta_t` is allowed above, so that `M(x) <= bound(x)`.
/// An optimal `theta` is itself a possible program: nothing tighter follows from the same readings.
/// After one observation the bound is `a_1` times the largest of the ratios `phi_j(x) / phi_j(x_1)`.
///
/// It needs a program that is fixed, features that are complete for it ([`Features`]), and readings that are not too low.
/// Readings that no fixed program explains may leave `bound(x_i)` below `a_i`; [`Predictor`](crate::Predictor) makes up
/// for that.
///
/// # What is kept
///
/// One need per shape, the largest read: readings carry noise, and a peak may be over-read.
/// Hence a higher reading of a known shape raises the bound.
/// Of 65 shapes the one goes (the oldest among equals) whose absence raises the bound at its own shape least, in
/// proportion; only shapes that remain bounded by at least their own need by the others are candidates, and there is
/// always one.
/// A dropped constraint only loosens the bound.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "State", into = "State")]
pub struct Certificate {
    features: Features,
    /// One per shape, oldest first.
    needs: Vec<ShapeNeed>,
    /// The most that each coefficient of `theta` can be, in bytes per feature.
    scales: Vector,
    /// The constraints that bind, scaled to `row · z <= 1` with entries within 0 and 1.
    rows: Vec<Vector>,
}

impl Certificate {
    /// Starts without an observation, for programs whose tensors are combinations of these features.
    pub fn new(features: Features) -> Self {
        Self { features, ..Self::default() }
    }

    /// Learns several needs, in this order.
    ///
    /// # Errors
    ///
    /// As [`Self::observe`].
    pub fn try_new(features: Features, needs: impl IntoIterator<Item = ShapeNeed>) -> Result<Self, PredictError> {
        let mut certificate = Self::new(features);
        needs.into_iter().try_for_each(|it| certificate.observe(it))?;
        Ok(certificate)
    }

    /// Learns what a step of some shape needed.
    ///
    /// # Errors
    ///
    /// [`PredictError::EmptyShape`], [`PredictError::OtherAxes`] or [`PredictError::NothingNeeded`]; nothing is stored
    /// then.
    pub fn observe(&mut self, observed: ShapeNeed) -> Result<(), PredictError> {
        let ShapeNeed { shape, need } = observed;
        if shape.is_empty() {
            return Err(PredictError::EmptyShape(shape));
        }
        if !self.features.fit(shape) {
            return Err(PredictError::OtherAxes { shape, n_axes: self.features.n_axes() });
        }
        if need == Bytes::ZERO {
            return Err(PredictError::NothingNeeded { shape, resident: Bytes::ZERO, peak: need });
        }
        match self.needs.iter_mut().find(|it| it.shape == shape) {
            Some(known) => known.need = known.need.max(need),
            None => self.needs.push(observed),
        }
        self.drop_excess();
        self.rebuild();
        Ok(())
    }

    /// Whether this shape is kept with a need at least as large, so that observing it again changes nothing.
    pub(crate) fn knows(&self, observed: ShapeNeed) -> bool {
        self.needs().iter().any(|it| it.shape == observed.shape && observed.need <= it.need)
    }

    /// Multiplies every need, and so the whole bound, by `factor`; a size that does not fit saturates.
    pub fn widen(&mut self, factor: f64) {
        for known in &mut self.needs {
            known.need = known.need.max(Bytes::from_f64_ceil(known.need.as_f64() * factor));
        }
        self.rebuild();
    }

    /// Returns the most that a step of this shape can need, or `None` without an observation, and for a shape with other
    /// axes than those that were observed.
    pub fn bound(&self, shape: StepShape) -> Option<Bytes> {
        (!self.needs.is_empty() && self.features.fit(shape)).then(|| Bytes::from_f64_ceil(self.ceiling(shape)))
    }

    /// Returns the least that a step of this shape needs: the largest need of a shape that it covers.
    pub fn lower(&self, shape: StepShape) -> Bytes {
        self.needs.iter().filter(|it| shape.covers(it.shape)).map(|it| it.need).max().unwrap_or_default()
    }

    /// Returns what tensors are combinations of.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// Returns the needs behind the bound, one per shape, oldest first.
    pub fn needs(&self) -> &[ShapeNeed] {
        &self.needs
    }

    /// Returns the bound before it is rounded to whole bytes, or zero without an observation.
    pub(crate) fn ceiling(&self, shape: StepShape) -> f64 {
        self.value(shape) * (1.0 + FLOAT_ERROR)
    }

    /// Returns the maximum of the linear program in bytes, or zero without an observation.
    pub(crate) fn value(&self, shape: StepShape) -> f64 {
        if self.needs.is_empty() {
            return 0.0;
        }
        let objective = multiply(self.features.of(shape), self.scales);
        let largest = objective.into_iter().fold(0.0, f64::max);
        let objective = objective.map(|it| it / largest);
        largest * simplex::maximise(&objective[..self.features.len()], &self.rows)
    }

    /// Returns the constraints of all needs, scaled by the returned factors.
    pub(crate) fn scaled(&self) -> (Vec<Vector>, Vector) {
        (self.needs.iter().map(|it| self.row(*it)).collect(), self.scales)
    }

    fn rebuild(&mut self) {
        self.scales = Vector::default();
        self.scales[..self.features.len()].fill(f64::INFINITY);
        for it in &self.needs {
            let (values, need) = (self.features.of(it.shape), it.need.as_f64());
            for (scale, value) in self.scales[..self.features.len()].iter_mut().zip(values) {
                *scale = scale.min(need / value);
            }
        }
        let binding = self.needs.iter().filter(|it| !self.is_dominated(**it));
        self.rows = binding.map(|it| self.row(*it)).collect();
    }

    fn row(&self, it: ShapeNeed) -> Vector {
        multiply(self.features.of(it.shape), self.scales).map(|cost| cost / it.need.as_f64())
    }

    /// Whether a larger shape that needed no more makes the constraint redundant.
    fn is_dominated(&self, it: ShapeNeed) -> bool {
        self.needs.iter().any(|other| other.shape != it.shape && other.shape.covers(it.shape) && other.need <= it.need)
    }

    fn drop_excess(&mut self) {
        if self.needs.len() > MAX_ROWS {
            let looseness = (0..self.needs.len()).map(|at| self.bound_by_others(at) / self.needs[at].need.as_f64());
            let candidates = looseness.enumerate().filter(|(_, ratio)| *ratio >= 1.0);
            let least = candidates.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(at, _)| at);
            self.needs.remove(least);
        }
    }

    fn bound_by_others(&self, at: usize) -> f64 {
        let mut others = Self { needs: self.needs.clone(), ..Self::new(self.features) };
        let own = others.needs.remove(at);
        others.rebuild();
        others.value(own.shape)
    }
}

fn multiply(a: Vector, b: Vector) -> Vector {
    std::array::from_fn(|feature| a[feature] * b[feature])
}

/// A certificate as it is written: observations only.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    features: Features,
    needs: Vec<ShapeNeed>,
}

impl TryFrom<State> for Certificate {
    type Error = PredictError;

    fn try_from(state: State) -> Result<Self, PredictError> {
        Self::try_new(state.features, state.needs)
    }
}

impl From<Certificate> for State {
    fn from(certificate: Certificate) -> Self {
        Self { features: certificate.features, needs: certificate.needs }
    }
}
