//! How small and how large a step may be, and the ladder between the two.

use plimsoll_types::{Knobs, Ladder};
use serde::{Deserialize, Serialize};

use crate::PolicyError;
use crate::error::check_range;

/// The largest patch size and micro-batch that a policy takes: with a million pixels or samples, more is a typing error.
pub const LARGEST: u32 = 1 << 20;

/// More sizes than this are a typing error too.
const MAX_PATCH_SIZES: u32 = 4096;

/// How small and how large the knobs may be.
///
/// The default suits a 12 GB card that trains image super-resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bounds {
    /// Smallest patch size, a multiple of `patch_multiple`; 32 by default.
    pub patch_min: u32,
    /// Largest patch size, a multiple of `patch_multiple`; 256 by default.
    pub patch_max: u32,
    /// What the model needs the patch size to be a multiple of; 1 by default, which suits a model without
    /// down-sampling.
    pub patch_multiple: u32,
    /// Smallest micro-batch; 2 by default, which batch normalisation needs.
    pub batch_min: u32,
    /// Largest micro-batch; 64 by default.
    pub batch_max: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { patch_min: 32, patch_max: 256, patch_multiple: 1, batch_min: 2, batch_max: 64 }
    }
}

impl Bounds {
    /// Checks that there is at least one patch size and one batch size.
    ///
    /// # Errors
    ///
    /// [`PolicyError::OutOfRange`] for the first key whose value is not allowed.
    pub fn validate(&self) -> Result<(), PolicyError> {
        check_range("batch_max", &self.batch_max, &(1..=LARGEST))?;
        check_range("batch_min", &self.batch_min, &(1..=self.batch_max))?;
        check_range("patch_max", &self.patch_max, &(1..=LARGEST))?;
        check_range("patch_min", &self.patch_min, &(1..=self.patch_max))?;
        let least = (self.patch_max - self.patch_min).div_ceil(MAX_PATCH_SIZES).max(1);
        check_range("patch_multiple", &self.patch_multiple, &(least..=self.patch_max))?;
        self.check_multiple("patch_min", self.patch_min)?;
        self.check_multiple("patch_max", self.patch_max)
    }

    /// Returns the smallest knobs.
    pub const fn smallest(&self) -> Knobs {
        Knobs { patch_size: self.patch_min, micro_batch_size: self.batch_min }
    }

    /// Whether the model may run with these knobs.
    pub fn contain(&self, knobs: Knobs) -> bool {
        (self.patch_min..=self.patch_max).contains(&knobs.patch_size)
            && knobs.patch_size.is_multiple_of(self.patch_multiple)
            && (self.batch_min..=self.batch_max).contains(&knobs.micro_batch_size)
    }

    fn check_multiple(&self, key: &'static str, patch: u32) -> Result<(), PolicyError> {
        if patch.is_multiple_of(self.patch_multiple) {
            return Ok(());
        }
        Err(PolicyError::out_of_range(key, patch, format!("any multiple of patch_multiple ({})", self.patch_multiple)))
    }
}

/// Orders the cells between the bounds: the patch first, at the smallest batch; then the batch, at the largest patch.
///
/// Batches go up by one while small and by at most 6 % above, so that rungs are at most 8 % of memory apart once the
/// batch is at least 13.
///
/// # Errors
///
/// [`PolicyError::OutOfRange`] when the bounds are not valid.
///
/// # Sources
///
/// Patch before batch as in nnU-Net (Isensee et al., 2021).
pub fn ladder(bounds: &Bounds) -> Result<Ladder, PolicyError> {
    bounds.validate()?;
    let patches = (bounds.patch_min..=bounds.patch_max).step_by(bounds.patch_multiple as usize);
    let at_smallest_batch = patches.map(|patch_size| Knobs { patch_size, ..bounds.smallest() });
    let at_largest_patch = batches(bounds.batch_min, bounds.batch_max)
        .skip(1)
        .map(|micro_batch_size| Knobs { patch_size: bounds.patch_max, micro_batch_size });
    Ok(Ladder::try_new(at_smallest_batch.chain(at_largest_patch).collect())?)
}

/// Returns the batches that a run may use, from the smallest to the largest: one apart while small, and at most 6 % above.
///
/// What is planned for a run are these too, so that a batch that the policy goes to is one that was planned.
pub fn batches(least: u32, most: u32) -> impl Iterator<Item = u32> {
    // The product takes more than 32 bits.
    let above = |batch: u32| u32::try_from(u64::from(batch) * 106 / 100).unwrap_or(u32::MAX);
    std::iter::successors(Some(least), move |batch| (*batch < most).then(|| (batch + 1).max(above(*batch)).min(most)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_patch_rises_before_the_batch() {
        let bounds = Bounds { patch_min: 16, patch_max: 32, patch_multiple: 8, batch_min: 2, batch_max: 4 };
        let rungs: Vec<_> = ladder(&bounds).unwrap().rungs().iter().map(ToString::to_string).collect();
        assert_eq!(
            rungs,
            ["patch 16, batch 2", "patch 24, batch 2", "patch 32, batch 2", "patch 32, batch 3", "patch 32, batch 4"]
        );
    }

    #[test]
    fn batches_are_consecutive_while_small_and_six_percent_apart_above() {
        let bounds = Bounds { patch_min: 32, patch_max: 32, patch_multiple: 32, batch_min: 1, batch_max: 64 };
        let batches: Vec<_> = ladder(&bounds).unwrap().rungs().iter().map(|it| it.micro_batch_size).collect();
        let consecutive: Vec<_> = (1..=34).collect();
        assert_eq!(batches[..34], consecutive);
        assert_eq!(batches[34..], [36, 38, 40, 42, 44, 46, 48, 50, 53, 56, 59, 62, 64]);
    }

    #[test]
    fn batches_rise_to_the_largest_that_a_number_holds() {
        let batches: Vec<_> = batches(1, u32::MAX).collect();
        assert!(batches.is_sorted() && batches.last() == Some(&u32::MAX), "{batches:?}");
        assert!(batches.len() < 400, "{} batches", batches.len());
    }

    #[test]
    fn a_bound_that_is_not_allowed_is_named_with_its_value_and_range() {
        let check = |bounds: Bounds, message: &str| assert_eq!(ladder(&bounds).unwrap_err().to_string(), message);
        let good = Bounds::default();
        check(Bounds { batch_min: 0, ..good }, "batch_min is 0, allowed is 1 to 64");
        check(Bounds { batch_max: 0, ..good }, "batch_max is 0, allowed is 1 to 1048576");
        check(Bounds { batch_min: 65, ..good }, "batch_min is 65, allowed is 1 to 64");
        check(Bounds { patch_min: 257, ..good }, "patch_min is 257, allowed is 1 to 256");
        check(Bounds { patch_max: u32::MAX, ..good }, "patch_max is 4294967295, allowed is 1 to 1048576");
        check(Bounds { patch_multiple: 0, ..good }, "patch_multiple is 0, allowed is 1 to 256");
        check(Bounds { patch_max: 100_000, ..good }, "patch_multiple is 1, allowed is 25 to 100000");
        check(
            Bounds { patch_multiple: 8, patch_min: 33, ..good },
            "patch_min is 33, allowed is any multiple of patch_multiple (8)",
        );
        check(
            Bounds { patch_multiple: 8, patch_max: 250, ..good },
            "patch_max is 250, allowed is any multiple of patch_multiple (8)",
        );
    }

    proptest! {
        #[test]
        fn every_ladder_spans_its_bounds_and_is_dense_near_the_top(
            multiple in 1u32..=32, low in 1u32..=8, more in 0u32..=16, batch_min in 1u32..=40, wider in 0u32..=3000,
        ) {
            let batch_max = batch_min + wider;
            let (patch_min, patch_max) = (low * multiple, (low + more) * multiple);
            let bounds = Bounds { patch_min, patch_max, patch_multiple: multiple, batch_min, batch_max };
            let ladder = ladder(&bounds).unwrap();
            prop_assert_eq!(ladder.at(0), bounds.smallest());
            prop_assert_eq!(ladder.at(ladder.top()), Knobs { patch_size: patch_max, micro_batch_size: batch_max });
            for pair in ladder.rungs().windows(2) {
                prop_assert!(bounds.contain(pair[1]));
                let (lower, upper) = (pair[0].work(), pair[1].work());
                prop_assert!(pair[0].micro_batch_size < 13 || pair[0].patch_size < patch_max || upper <= 1.08 * lower);
            }
        }
    }
}
