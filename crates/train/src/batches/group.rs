//! What a step takes, and what of it comes together.

use plimsoll_sampler::{CapacityRule, PaddedBudget, StepSize};

use super::error::BatchesError;

/// What an optimizer step takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepOf {
    pub(super) size: usize,
    /// Whether that counts what samples cost, and not samples.
    pub(super) is_cost: bool,
    /// Groups of samples that cost much the same.
    pub(super) groups: usize,
}

impl StepOf {
    pub(super) fn check(self) -> Result<(), BatchesError> {
        let key = if self.is_cost { "effective_cost" } else { "effective_batch" };
        let bad = if self.size == 0 { Some(key) } else { (self.groups == 0).then_some("groups_per_step") };
        bad.map_or(Ok(()), |key| Err(BatchesError::BelowOne { key }))
    }

    pub(super) fn in_one_group(self) -> Self {
        Self { groups: 1, ..self }
    }

    /// A group that makes a whole step stays whole: cut at another place, a step would have samples of two groups.
    pub(super) fn size(self) -> StepSize {
        if self.groups == 1 { StepSize::Batch } else { self.size_of_rows() }
    }

    /// A step of rows ends with a row.
    pub(super) fn size_of_rows(self) -> StepSize {
        if self.is_cost {
            return StepSize::Positions(self.size as u64);
        }
        StepSize::Samples(u32::try_from(self.size).unwrap_or(u32::MAX))
    }
}

/// A group of a step, or a whole step, of samples that cost much the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Group<const AXES: usize> {
    size: u64,
    is_cost: bool,
    /// The most that it may be padded to on each axis.
    most: [u64; AXES],
}

impl<const AXES: usize> Group<AXES> {
    pub(super) fn of(StepOf { size, is_cost, groups }: StepOf, most: [u64; AXES]) -> Self {
        Self { size: size.div_ceil(groups) as u64, is_cost, most }
    }
}

impl<const AXES: usize> CapacityRule<AXES> for Group<AXES> {
    fn capacity(&self, padded: [u32; AXES]) -> u32 {
        let cost = padded.into_iter().fold(1, |cost: u64, length| cost.saturating_mul(length.max(1).into()));
        let n_samples = if self.is_cost { self.size.div_ceil(cost) } else { self.size };
        u32::try_from(n_samples).unwrap_or(u32::MAX).min(PaddedBudget(self.most).capacity(padded))
    }
}
