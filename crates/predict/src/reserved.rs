//! From bytes in use to bytes reserved.

mod packing;
mod values;

use std::collections::BTreeMap;

use plimsoll_types::{Bytes, Features, StepShape};
use serde::{Deserialize, Serialize};

use self::packing::Packing;
use self::values::check;
pub use self::values::{ReservedObservation, ReservedPrediction, ReservedResidual, Source};
use crate::{PredictError, Ratchet};

/// Least fraction added to the most that was reserved for a shape that has run.
///
/// 0.02: with it 0.03 to 0.07 % of the readings of simulated runs on eight rows of shapes were above their bound.
const MEMO_MARGIN: f64 = 0.02;

/// Predicts what the allocator holds at the end of a step, for the steps of one [`Key`](crate::Key).
///
/// An allocator that reserves in pages holds more than is in use, by an amount that depends on the order of sizes.
/// No bound from the readings of other shapes is both tight and safe (a linear program on reserved bytes, as the
/// [`Certificate`](crate::Certificate) is for bytes in use, plus 3 % was violated by 11 to 22 % of unseen shapes in three
/// of four simulated workloads), so that the answer comes from the first of these that has one:
///
/// 1. **Memo**: the shape has run. `upper = most reserved · (1 + max { 2 %, margin of the Ratchet })`.
/// 2. **Dry run**: the shape was planned ([`Reserved::plan`]). `upper = planned + correction`.
/// 3. **Dry run** of the shape that covers this one and was planned with the least: as for 2.
/// 4. **Certificate**: `upper = rho · U · 1.01 + P / 2`, where `U` bounds the peak in use, `rho` is the largest ratio of
///    reserved to in use that was observed, and `P` is the page for a bound on the largest allocation ([`page_for`]).
///    Without an observation that tells the peak in use there is no such answer.
///
/// [`page_for`]: crate::page_for
///
/// # What holds
///
/// `upper` of a shape that has run is never below what was reserved for it.
/// Everything else is assumed: that readings repeat (1), that the plan is right (2), that a smaller shape reserves no
/// more (3), that packing gets no worse than it was (4).
///
/// Measured for (4), on 200 random programs in a model of `CubeCL`'s arena, after ten observations each: 50 of 9972
/// unseen shapes, of a tenth of the programs, reserved more than `upper`, by at most 18 %; in the median `upper` was 24 %
/// too much.
/// It serves to decide what may be tried, not to plan.
///
/// # A violation
///
/// A reading above its upper bound, whichever source gave it, shows that the key's steps have changed.
/// By the factor that was lacking, every memo, every plan, the correction and `rho` are multiplied at once, before the
/// reading itself is learnt.
/// A plan given later is taken as it is.
/// If the reading was `r` times its memo, no later reading of at most `r` times its own memo is above its bound, for 446
/// observations at least: the memos have grown `r / (1 + margin)`-fold, and the [`Ratchet`] keeps the margin.
/// What was widened stays so: start anew after a transient peak, or after a change that makes the readings misleading.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "State", into = "State")]
pub struct Reserved {
    seen: BTreeMap<StepShape, Bytes>,
    planned: BTreeMap<StepShape, Bytes>,
    correction: Bytes,
    noise: Ratchet,
    packing: Packing,
    n_violations: u64,
}

impl Reserved {
    /// Starts without an observation, for programs whose tensors are combinations of these features.
    pub fn new(features: Features) -> Self {
        Self { packing: Packing::new(features), ..Self::default() }
    }

    /// Learns what a step reserved and tells how it compares with the prediction.
    ///
    /// # Errors
    ///
    /// [`PredictError::EmptyShape`], [`PredictError::OtherAxes`], [`PredictError::NothingRead`] for a size of zero,
    /// [`PredictError::NothingNeeded`] for a peak in use that is not above the resident bytes; nothing is stored then.
    pub fn observe(&mut self, observation: ReservedObservation) -> Result<ReservedResidual, PredictError> {
        observation.check()?;
        self.packing.check(observation.shape)?;
        let ReservedObservation { shape, reserved, .. } = observation;
        let predicted = self.predict(shape);
        let violated = predicted.filter(|it| reserved > it.upper);
        let widened = violated.map(|it| reserved.share_of(it.upper));
        if let Some(factor) = widened {
            self.widen(factor);
        }
        if let Some(seen) = self.seen.get(&shape) {
            // What was widened for lies at its bound, on either side of it by rounding; it counts as just above.
            let at_bound = widened.map(|_| self.memo_margin() * (1.0 + 1e-6));
            self.noise.observe(at_bound.unwrap_or(reserved.share_of(*seen) - 1.0));
        }
        let most = self.seen.entry(shape).or_default();
        *most = reserved.max(*most);
        self.packing.observe(observation)?;
        Ok(ReservedResidual { predicted, widened })
    }

    /// Learns from a reading of a step of which nothing else is known, and says whether it was above its bound.
    ///
    /// A reading within a memo or a plan teaches nothing: those are exact, and a margin on a reading would only loosen
    /// them.
    pub(crate) fn observe_reading(
        &mut self,
        shape: StepShape,
        resident: Bytes,
        reserved: Bytes,
    ) -> Result<bool, PredictError> {
        let known = self.predict(shape).filter(|it| it.source != Source::Certificate);
        if known.is_some_and(|it| reserved <= it.upper) {
            return Ok(false);
        }
        // What one allocation takes is at most what the step does.
        let largest = reserved.saturating_sub(resident).max(Bytes(1));
        let residual = self.observe(ReservedObservation { shape, reserved, resident, in_use: None, largest })?;
        self.n_violations += u64::from(residual.widened.is_some());
        Ok(residual.widened.is_some())
    }

    /// Returns how many readings of steps were above their bound.
    pub(crate) fn n_violations(&self) -> u64 {
        self.n_violations
    }

    /// Returns what a real step holds beyond its plan.
    pub(crate) fn correction(&self) -> Bytes {
        self.correction
    }

    /// Notes what a dry run of this shape reserved, in place of an earlier plan of it.
    ///
    /// # Errors
    ///
    /// [`PredictError::EmptyShape`], or [`PredictError::NothingRead`] for nothing reserved.
    pub fn plan(&mut self, shape: StepShape, reserved: Bytes) -> Result<(), PredictError> {
        check(shape, &[("reserved", reserved)])?;
        self.planned.insert(shape, reserved);
        Ok(())
    }

    /// Sets what a real step holds beyond its plan, such as the buffers of a runtime's queue.
    pub fn correct(&mut self, correction: Bytes) {
        self.correction = correction;
    }

    /// Returns what a step of this shape reserves, or `None` when nothing is known.
    pub fn predict(&self, shape: StepShape) -> Option<ReservedPrediction> {
        self.remembered(shape).or_else(|| self.planned(shape)).or_else(|| self.certified(shape))
    }

    fn remembered(&self, shape: StepShape) -> Option<ReservedPrediction> {
        let expected = *self.seen.get(&shape)?;
        let upper = Bytes::from_f64_ceil(expected.as_f64() * (1.0 + self.memo_margin()));
        Some(ReservedPrediction { expected, upper, source: Source::Memo })
    }

    fn memo_margin(&self) -> f64 {
        self.noise.margin().max(MEMO_MARGIN)
    }

    fn planned(&self, shape: StepShape) -> Option<ReservedPrediction> {
        let covering = || self.planned.range(shape..).filter(|(planned, _)| planned.covers(shape)).map(|(_, it)| *it);
        let expected = self.planned.get(&shape).copied().or_else(|| covering().min())?;
        let upper = expected.saturating_add(self.correction);
        Some(ReservedPrediction { expected, upper, source: Source::DryRun })
    }

    fn certified(&self, shape: StepShape) -> Option<ReservedPrediction> {
        let need = self.packing.need(shape)?;
        Some(ReservedPrediction { expected: need.expected, upper: need.upper, source: Source::Certificate })
    }

    fn widen(&mut self, factor: f64) {
        let sizes = self.seen.values_mut().chain(self.planned.values_mut()).chain([&mut self.correction]);
        for size in sizes {
            *size = Bytes::from_f64_ceil(size.as_f64() * factor).max(*size);
        }
        self.packing.widen(factor);
    }
}

/// What is written: shapes are no text, so that they cannot be the keys of a JSON object.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    seen: Vec<(StepShape, Bytes)>,
    planned: Vec<(StepShape, Bytes)>,
    correction: Bytes,
    noise: Ratchet,
    packing: Packing,
    #[serde(default)]
    n_violations: u64,
}

impl From<Reserved> for State {
    fn from(reserved: Reserved) -> Self {
        let Reserved { seen, planned, correction, noise, packing, n_violations } = reserved;
        let (seen, planned) = (seen.into_iter().collect(), planned.into_iter().collect());
        Self { seen, planned, correction, noise, packing, n_violations }
    }
}

impl From<State> for Reserved {
    fn from(state: State) -> Self {
        let State { seen, planned, correction, noise, packing, n_violations } = state;
        let (seen, planned) = (seen.into_iter().collect(), planned.into_iter().collect());
        Self { seen, planned, correction, noise, packing, n_violations }
    }
}
