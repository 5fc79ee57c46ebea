//! The most of what was read lately.

use plimsoll_types::Bytes;
use serde::{Deserialize, Serialize};

/// Readings of one shape that count for its need: the largest of the last 16 to 32.
///
/// 16: of readings with up to 5 % of even noise, one in a hundred is more than 1 % above 16 others.
pub(crate) const READINGS: u32 = 16;

/// Readings of any shape for which one that contradicts the others stretches the bound,
/// of the bytes in use and of the reserved ones: the last 48 to 96.
///
/// 48: a run of one shape is back at its line within 200 steps after a transient peak, the way of its policy included.
pub(crate) const MEMORY: u32 = 48;

/// Parts per billion in one.
const BILLION: f64 = 1e9;

/// The largest of the last values: of at least as many as a block holds, of at most twice as many.
///
/// Two maxima stand for all of them: that of the block that is being filled, and that of the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Recent {
    /// The largest of the block before.
    earlier: u64,
    /// The largest of this block.
    latest: u64,
    /// Values of this block.
    n: u32,
}

impl Recent {
    /// Takes a value, in blocks of `block` values.
    pub(crate) fn push(&mut self, value: u64, block: u32) {
        if block <= self.n {
            *self = Self { earlier: self.latest, latest: 0, n: 0 };
        }
        self.latest = value.max(self.latest);
        self.n += 1;
    }

    /// Returns the largest, or 0 without a value.
    pub(crate) fn most(self) -> u64 {
        self.earlier.max(self.latest)
    }

    /// Multiplies what was read by a factor of at least 1.
    pub(crate) fn widen(&mut self, factor: f64) {
        for it in [&mut self.earlier, &mut self.latest] {
            *it = Bytes::from_f64_ceil(Bytes(*it).as_f64() * factor).0.max(*it);
        }
    }
}

/// Returns a factor as the whole number that is kept of it, rounded up, and at least that of 1.
pub(crate) fn parts(factor: f64) -> u64 {
    Bytes::from_f64_ceil((factor * BILLION).max(BILLION)).0
}

/// Returns the factor of such a number, at least 1.
pub(crate) fn factor(parts: u64) -> f64 {
    (Bytes(parts).as_f64() / BILLION).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_for_one_to_two_blocks() {
        let mut recent = Recent::default();
        recent.push(100, 4);
        let most: Vec<u64> = (0..8)
            .map(|it| {
                recent.push(it, 4);
                recent.most()
            })
            .collect();
        assert_eq!(most, [100, 100, 100, 100, 100, 100, 100, 7]);
        recent.widen(1.5);
        assert_eq!(recent.most(), 11);
    }

    #[test]
    fn a_factor_is_never_rounded_down_and_never_below_one() {
        assert_eq!((factor(parts(0.5)), factor(0)), (1.0, 1.0));
        assert!(factor(parts(1.1)) >= 1.1 && factor(parts(1.1)) < 1.1 + 1e-8);
        assert!(factor(parts(f64::INFINITY)).is_finite());
    }
}
