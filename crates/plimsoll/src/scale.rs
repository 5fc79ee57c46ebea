//! The scale of losses whose gradients have 16 bits.

use plimsoll_step::SettingError;
use serde::{Deserialize, Serialize};

/// Steps without an overflow after which a scale is tried that is twice as large.
const PATIENCE: u32 = 2_000;
/// Where a scale that adapts begins: the largest power of two that is soon found to be too large, if it is.
const FIRST: f64 = 65_536.0;
/// Steps in a row that may overflow under a fixed scale: as often as one that adapts halves on its way down to 1.
const MOST_OVERFLOWS: u32 = 16;

/// What a loss is multiplied by, so that gradients do not vanish in the 16 bits that they are computed in.
///
/// The gradient is divided by it again before the optimizer takes it.
/// A step whose multiplied gradient overflows is passed over, see [`Done::is_skipped`](crate::Done::is_skipped), unless nothing
/// is left to hope for: where a scale that adapts multiplies nothing any more, or 16 steps in a row have overflowed under a
/// fixed one, the next such step is [`StepError::NotFinite`](crate::StepError::NotFinite).
///
/// What is divided is the gradient of each weight, in the weight's own precision: weights are to have 32 bits, and what is
/// computed from them 16, as is usual, or small gradients vanish all the same. A loss is multiplied as it is; one of 32 bits
/// overflows at no scale.
///
/// # Sources
///
/// Micikevicius et al., *Mixed Precision Training* (ICLR 2018), 3.2; the numbers are those of `PyTorch`'s `GradScaler`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossScale {
    scale: f64,
    adapts: bool,
    n_good: u32,
    /// Steps in a row that have overflowed.
    #[serde(default)]
    n_overflows: u32,
}

impl LossScale {
    /// A scale that halves at an overflow, and doubles after 2000 steps without one.
    pub fn adaptive() -> Self {
        Self { scale: FIRST, adapts: true, n_good: 0, n_overflows: 0 }
    }

    /// This scale, a finite number above 0, for all steps.
    pub fn fixed(scale: f64) -> Self {
        Self { scale, adapts: false, n_good: 0, n_overflows: 0 }
    }

    /// Returns the scale of the next step.
    pub fn get(&self) -> f64 {
        self.scale
    }

    pub(crate) fn check(&self) -> Result<(), SettingError> {
        let (name, value, wanted) = ("loss_scale", self.scale, "a finite number above 0");
        if value.is_finite() && 0.0 < value { Ok(()) } else { Err(SettingError { name, value, wanted }) }
    }

    pub(crate) fn on_step(&mut self) {
        (self.n_good, self.n_overflows) = (self.n_good.saturating_add(1), 0);
        if self.adapts && self.n_good == PATIENCE {
            (self.scale, self.n_good) = (self.scale * 2.0, 0);
        }
    }

    /// Returns whether the next step may do better.
    pub(crate) fn on_overflow(&mut self) -> bool {
        let is_hopeful = if self.adapts { 1.0 < self.scale } else { self.n_overflows < MOST_OVERFLOWS };
        self.n_overflows = self.n_overflows.saturating_add(1);
        if self.adapts {
            (self.scale, self.n_good) = (self.scale / 2.0, 0);
        }
        is_hopeful
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adaptive_scale_halves_at_once_doubles_with_patience_and_gives_up_where_it_multiplies_nothing_a_fixed_one_in_time()
     {
        let mut scale = LossScale::adaptive();
        assert!(scale.on_overflow() && scale.get() < FIRST);
        (0..PATIENCE).for_each(|_| scale.on_step());
        assert!((scale.get() - FIRST).abs() < 0.5);
        let n_overflows = (0..40).take_while(|_| scale.on_overflow()).count();
        assert_eq!(n_overflows, 16);
        let mut fixed = LossScale::fixed(8.0);
        for _ in 0..2 {
            assert_eq!((0..100).take_while(|_| fixed.on_overflow()).count(), 16);
            fixed.on_step();
        }
        assert!((fixed.get() - 8.0).abs() < f64::EPSILON);
    }
}
