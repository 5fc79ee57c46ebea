//! What single samples count as, where batches take more.

use plimsoll_types::{Bytes, StepShape};
use serde::{Deserialize, Serialize};

use crate::recent::{factor, parts};

/// A batch that is above its bound by less than this says nothing of single samples: where bounds are bare, 1 % is what the
/// rounding of allocations adds.
pub(crate) const EVIDENT: f64 = 1.01;

/// A single sample that lowers the bound of two by less than this is not held against what was read of batches.
pub(crate) const TELLING: f64 = 1.001;

/// Single samples count as no more than so many times what was read of them: what batches take beyond that has other causes.
const MOST: f64 = 2.0;

/// Halvings of the range in which a factor is sought: to less than 2 %.
const HALVINGS: usize = 6;

/// The factor, as [`parts`], by which what was read of single samples counts; 0 while there was no reason for one.
///
/// Batches take what one sample does not: permuting the axes of a batch of one, for example, copies nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Alone(u64);

impl Alone {
    /// Returns what the need of a shape counts as.
    pub(crate) fn counted(self, shape: StepShape, need: Bytes) -> Bytes {
        let has_factor = shape.samples == 1 && 0 < self.0;
        if has_factor { Bytes::from_f64_ceil(need.as_f64() * factor(self.0)) } else { need }
    }

    /// Returns a factor that suffices, or none where none does.
    ///
    /// One reading need not show all of it, so that what it shows counts twice.
    pub(crate) fn raised(self, mut suffices: impl FnMut(Self) -> bool) -> Option<Self> {
        let before = factor(self.0);
        let (mut least, mut enough) = (before, MOST);
        if !suffices(Self(parts(enough))) {
            return None;
        }
        for _ in 0..HALVINGS {
            let middle = least.midpoint(enough);
            if suffices(Self(parts(middle))) { enough = middle } else { least = middle }
        }
        Some(Self(parts((2.0 * enough - before).min(MOST))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_is_raised_by_twice_what_suffices_up_to_the_most() {
        let of = |alone: Alone| alone.counted(StepShape::new(1, 8), Bytes(1000)).0;
        let raised = |needed: u64| Alone::default().raised(|it| needed <= of(it)).map(of);
        assert_eq!(of(Alone::default()), 1000);
        assert!((1200..=1220).contains(&raised(1100).unwrap()), "{:?}", raised(1100));
        assert_eq!([raised(1800), raised(2001)], [Some(2000), None]);
        let again = Alone::default().raised(|it| 1100 <= of(it)).unwrap().raised(|it| 1300 <= of(it)).map(of);
        assert!((1390..=1430).contains(&again.unwrap()), "{again:?}");
        assert_eq!(Alone(parts(1.5)).counted(StepShape::new(2, 8), Bytes(1000)), Bytes(1000));
    }
}
