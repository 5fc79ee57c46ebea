//! From bytes in use to bytes reserved.

mod memo;
mod packing;
mod values;

use std::collections::BTreeMap;

use plimsoll_types::{Bytes, Features, StepShape};
use serde::{Deserialize, Serialize};

use self::memo::Memos;
use self::packing::Packing;
use self::values::check;
pub use self::values::{ReservedObservation, ReservedPrediction, ReservedResidual, Source};
use crate::recent::{MEMORY, Recent, factor, parts};
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
/// 1. **Memo**: the shape has run lately. `upper = most reserved · (1 + max { 2 %, margin of the Ratchet }) + page`, and more
///    by what is resident beyond what those steps began with, such as the state that the first step of an optimizer makes.
///    The `page` is the largest that was read of late, of whatever shape and in whatever phase: pages never become smaller,
///    and how what is in use lies in them depends on what lay there before, so that a shape takes one more or less from
///    step to step.
/// 2. **Dry run**: the shape was planned ([`Reserved::plan`]). `upper = (planned + correction) · lift`.
/// 3. **Dry run** of the shape that covers this one and was planned with the least: as for 2.
/// 4. **Certificate**: `upper = (rho · U · 1.01 + P / 2) · lift`, where `U` bounds the peak in use, `rho` is the largest
///    ratio of reserved to in use that was observed lately, and `P` is the page for a bound on the largest allocation
///    ([`page_for`]): the page that the shape would open, whatever the pages were when it was asked.
///    Without an observation that tells the peak in use there is no such answer.
///
/// [`page_for`]: crate::page_for
///
/// # Where only pages are read
///
/// A device that tells no peak in use tells one that is at most what it reserved, and so is the largest allocation: both
/// are safe to learn too high, and [`Predictor`](crate::Predictor) learns them so.
/// `rho` is 1 then, and half of what the shape may need stands for half a page.
/// So a run without a plan climbs from shape to shape, to about two thirds of its budget on these programs.
///
/// # What holds
///
/// `upper` is never below what was reserved in the last 16 readings of a shape whose memo is kept, for steps that begin
/// with as much in use.
/// Everything else is assumed: that readings repeat (1), that the plan is right (2), that a smaller shape reserves no
/// more (3), that packing gets no worse than it was (4).
///
/// Measured for (4), on 200 random programs in a model of `CubeCL`'s arena, after ten observations each: 50 of 9972
/// unseen shapes, of a tenth of the programs, reserved more than `upper`, by at most 18 %; in the median `upper` was 24 %
/// too much.
/// Where only pages were read, 5 of 10 000 did, by at most 3 %, and in the median `upper` was 52 % too much.
/// From the smallest shape up, each time to the largest that was said to fit, 4 of 580 steps did, by at most 27 %.
/// It serves to decide what may be tried, not to plan.
///
/// # A violation
///
/// A reading above its upper bound, whichever source gave it, shows that the key's steps have changed.
/// By the factor that was lacking, every memo and the page, every plan, the correction and the certificate are raised at
/// once, before the reading itself is learnt.
/// If the reading was `r` times its bound, no later reading of at most `r` times what its own bound was is above it, for 446
/// observations at least and until its own readings lower that memo, or smaller pages were read for 48: the memos have grown
/// `r`-fold, and the [`Ratchet`] keeps the margin.
///
/// # A need falls
///
/// A memo is the largest of the last 16 to 32 readings of its shape, so that what was read once, because something else
/// took memory just then, lapses.
/// The `lift` of plans and certificate is the largest factor that a reading of the last 48 to 96 lacked; plans themselves
/// stay as they were made.
/// A reading within its plan is no memo, since the plan is exact and a margin on a reading would only loosen it; and a memo
/// that has fallen to its plan gives way to it.
///
/// # What is kept
///
/// At most 256 memos; the one whose shape was read longest ago goes first.
/// That is safe as far as (2) to (4) are: the answer of such a shape comes from its plan, or from the certificate, which
/// has learnt the same readings.
/// Plans are as many as were given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "State", into = "State")]
pub struct Reserved {
    memos: Memos,
    /// The size of pages.
    page: Recent,
    planned: BTreeMap<StepShape, Bytes>,
    correction: Bytes,
    noise: Ratchet,
    /// The factors, as [`parts`], that plans and certificate lacked.
    lift: Recent,
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
        let ReservedObservation { shape, reserved, resident, page, .. } = observation;
        let predicted = self.predict(shape, resident);
        let widened = predicted.filter(|it| it.upper < reserved).map(|it| reserved.share_of(it.upper));
        if let Some(factor) = widened {
            self.n_violations += 1;
            self.memos.widen(factor);
            self.page.widen(factor);
        }
        if let Some(memo) = self.memos.most(shape) {
            // What was widened for lies at its bound, on either side of it by rounding; it counts as just above.
            let at_bound = widened.map(|_| self.memo_margin() * (1.0 + 1e-6));
            let beyond_page = reserved.saturating_sub(self.page());
            self.noise.observe(at_bound.unwrap_or(beyond_page.share_of(memo) - 1.0));
        }
        self.lift(shape, resident, reserved, widened.unwrap_or(1.0));
        self.packing.observe(observation)?;
        self.remember(shape, resident, reserved);
        self.page.push(page.0, MEMORY);
        Ok(ReservedResidual { predicted, widened })
    }

    /// Learns a reading of a step of which nothing else is known, and returns its bound where it was above that.
    pub(crate) fn observe_reading(
        &mut self,
        shape: StepShape,
        resident: Bytes,
        (reserved, page): (Bytes, Bytes),
    ) -> Result<Option<Bytes>, PredictError> {
        // What is in use lies in what is reserved, and one allocation takes at most what the step does.
        let largest = reserved.saturating_sub(resident).max(Bytes(1));
        let in_use = Some(reserved).filter(|it| resident < *it);
        let residual = self.observe(ReservedObservation { shape, reserved, resident, in_use, page, largest })?;
        Ok(residual.predicted.filter(|_| residual.widened.is_some()).map(|it| it.upper))
    }

    /// Learns the size of pages that steps of another kind have made: they lie in the same pools.
    pub(crate) fn observe_page(&mut self, page: Bytes) {
        self.page.push(page.0, MEMORY);
    }

    /// Returns the largest page that was read of late.
    pub(crate) fn page(&self) -> Bytes {
        Bytes(self.page.most())
    }

    /// Returns how many readings were above their bound.
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

    /// Returns what a step of this shape reserves that begins with `resident` bytes in use, or `None` when nothing is
    /// known.
    pub fn predict(&self, shape: StepShape, resident: Bytes) -> Option<ReservedPrediction> {
        self.remembered(shape, resident).or_else(|| self.derived(shape, resident))
    }

    fn remembered(&self, shape: StepShape, resident: Bytes) -> Option<ReservedPrediction> {
        let expected = self.memos.need(shape, resident)?;
        let upper = times(expected, 1.0 + self.memo_margin()).saturating_add(self.page());
        Some(ReservedPrediction { expected, upper, source: Source::Memo })
    }

    fn memo_margin(&self) -> f64 {
        self.noise.margin().max(MEMO_MARGIN)
    }

    /// Returns what is said of a shape that need not have run.
    fn derived(&self, shape: StepShape, resident: Bytes) -> Option<ReservedPrediction> {
        let ReservedPrediction { expected, upper, source } = self.bare(shape, resident)?;
        let lift = factor(self.lift.most());
        Some(ReservedPrediction { expected: times(expected, lift), upper: times(upper, lift), source })
    }

    /// Returns the same as it was before any reading was above its bound.
    fn bare(&self, shape: StepShape, resident: Bytes) -> Option<ReservedPrediction> {
        self.planned(shape).or_else(|| self.certified(shape, resident))
    }

    fn planned(&self, shape: StepShape) -> Option<ReservedPrediction> {
        let covering = || self.planned.range(shape..).filter(|(planned, _)| planned.covers(shape)).map(|(_, it)| *it);
        let expected = self.planned.get(&shape).copied().or_else(|| covering().min())?;
        let upper = expected.saturating_add(self.correction);
        Some(ReservedPrediction { expected, upper, source: Source::DryRun })
    }

    fn certified(&self, shape: StepShape, resident: Bytes) -> Option<ReservedPrediction> {
        let need = self.packing.need(shape, resident)?;
        Some(ReservedPrediction { expected: need.expected, upper: need.upper, source: Source::Certificate })
    }

    /// Learns by which factor a reading was above what was said of its shape without the memo, or else `widened` what is
    /// lifted already.
    fn lift(&mut self, shape: StepShape, resident: Bytes, reserved: Bytes, widened: f64) {
        let lacking = self.bare(shape, resident).map_or(1.0, |it| reserved.share_of(it.upper));
        let wanted = if widened > 1.0 { widened * factor(self.lift.most()) } else { 1.0 };
        self.lift.push(parts(lacking.max(wanted)), MEMORY);
    }

    /// Keeps a reading, unless a plan says as much.
    fn remember(&mut self, shape: StepShape, resident: Bytes, reserved: Bytes) {
        // What was planned for a larger shape is no plan of this one.
        let planned = self.planned.get(&shape).map(|it| it.saturating_add(self.correction));
        let is_known = self.memos.most(shape).is_some();
        if !is_known && planned.is_some_and(|upper| reserved <= upper) {
            return;
        }
        self.memos.push(shape, resident, reserved);
        if self.memos.most(shape) <= planned {
            self.memos.forget(shape);
        }
    }
}

/// Multiplies by a factor of at least 1, rounded up.
fn times(size: Bytes, factor: f64) -> Bytes {
    if factor > 1.0 { Bytes::from_f64_ceil(size.as_f64() * factor).max(size) } else { size }
}

/// What is written: shapes are no text, so that they cannot be the keys of a JSON object.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    memos: Memos,
    #[serde(default)]
    page: Recent,
    planned: Vec<(StepShape, Bytes)>,
    correction: Bytes,
    noise: Ratchet,
    lift: Recent,
    packing: Packing,
    n_violations: u64,
}

impl From<Reserved> for State {
    fn from(reserved: Reserved) -> Self {
        let Reserved { memos, page, planned, correction, noise, lift, packing, n_violations } = reserved;
        Self { memos, page, planned: planned.into_iter().collect(), correction, noise, lift, packing, n_violations }
    }
}

impl From<State> for Reserved {
    fn from(state: State) -> Self {
        let State { memos, page, planned, correction, noise, lift, packing, n_violations } = state;
        Self { memos, page, planned: planned.into_iter().collect(), correction, noise, lift, packing, n_violations }
    }
}
