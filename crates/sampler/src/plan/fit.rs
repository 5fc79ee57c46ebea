//! What fits.

use super::config::PlanConfig;
use crate::{CapacityRule, Lattice, PlanError};

/// The capacity rule over the cells of a lattice.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fit<R, const AXES: usize> {
    pub(super) rule: R,
    pub(super) lattice: Lattice<AXES>,
    pub(super) most_samples: u32,
    /// Batches have a multiple of so many samples.
    pub(super) multiple_of: u32,
    /// Whether a capacity below one multiple is taken as it is: the rule has changed since the multiple was accepted.
    pub(super) gives_way: bool,
}

impl<R: CapacityRule<AXES>, const AXES: usize> Fit<R, AXES> {
    pub(super) fn new(rule: R, config: &PlanConfig<AXES>) -> Self {
        let PlanConfig { most_samples, multiple_of, .. } = *config;
        Self { rule, lattice: config.lattice.clone(), most_samples, multiple_of, gives_way: false }
    }

    /// Follows another rule, which may have no room for a multiple.
    pub(super) fn follow(&mut self, rule: R) {
        (self.rule, self.gives_way) = (rule, true);
    }

    /// Refuses a multiple that there is no room for with these lengths, the greatest that a batch may have.
    pub(super) fn check_multiple(&self, longest: [u32; AXES]) -> Result<(), PlanError> {
        let (padded, capacity) = self.of(longest);
        if self.multiple_of <= capacity || self.gives_way {
            return Ok(());
        }
        let length = padded.last().copied().unwrap_or(0);
        Err(PlanError::MultipleAboveBudget { multiple: self.multiple_of, capacity, length })
    }

    /// The cell of a batch whose longest samples are these, and how many samples fit into it: 0 when there is no cell.
    pub(super) fn of(&self, longest: [u32; AXES]) -> ([u32; AXES], u32) {
        match self.lattice.cell(longest) {
            Some(cell) => (cell, self.whole(self.rule.capacity(cell).min(self.most_samples))),
            None => (longest, 0),
        }
    }

    /// The greatest multiple within a capacity; a capacity below one multiple stays.
    const fn whole(&self, capacity: u32) -> u32 {
        if capacity < self.multiple_of { capacity } else { capacity - capacity % self.multiple_of }
    }

    /// How many samples as long as this fit.
    pub(super) fn capacity(&self, lengths: [u32; AXES]) -> u32 {
        self.of(lengths).1
    }

    /// The greatest length on one axis with which a sample fits alone; 0 when there is none.
    pub(super) fn limit(&self, mut lengths: [u32; AXES], axis: usize) -> u32 {
        let (mut fits, mut most) = (0, lengths[axis]);
        while fits < most {
            lengths[axis] = most - (most - fits) / 2;
            if self.capacity(lengths) > 0 { fits = lengths[axis] } else { most = lengths[axis] - 1 }
        }
        fits
    }

    /// Says what would have to be cut for the sample to fit.
    pub(super) fn refusal(&self, id: u64, lengths: [u32; AXES]) -> PlanError {
        let limits = (0..AXES).map(|axis| (axis, self.limit(lengths, axis)));
        let (axis, limit) = limits.rev().find(|(_, limit)| *limit > 0).unwrap_or((AXES - 1, 0));
        PlanError::Oversize { id, axis, length: lengths[axis], limit }
    }

    /// Cuts a sample until it fits alone, on the last axis first; `None` when even length 1 on every axis does not fit.
    pub(super) fn cut(&self, mut lengths: [u32; AXES]) -> Option<[u32; AXES]> {
        for axis in (0..AXES).rev() {
            lengths[axis] = self.limit(lengths, axis).max(1);
            if self.capacity(lengths) > 0 {
                return Some(lengths);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PaddedBudget;

    #[test]
    fn a_limit_is_the_last_length_that_fits() {
        let lattice = Lattice::try_new([vec![8, 16, 64]]).unwrap();
        let fit = Fit::new(PaddedBudget([40]), &PlanConfig { lattice, most_samples: 3, ..PlanConfig::default() });
        assert_eq!((fit.of([9]), fit.of([4]), fit.of([65])), (([16], 2), ([8], 3), ([65], 0)));
        assert_eq!((fit.limit([1000], 0), fit.cut([1000])), (16, Some([16])));
    }

    #[test]
    fn the_last_axis_is_cut_first() {
        let config = PlanConfig { most_samples: 3, ..PlanConfig::default() };
        let fit = Fit::new(PaddedBudget([4, 100]), &config);
        assert_eq!(fit.cut([4, 500]), Some([4, 100]));
        assert_eq!(fit.cut([9, 500]), Some([4, 1]));
        assert_eq!(fit.cut([2, u32::MAX]), Some([2, 100]));
        let nothing = Fit::new(PaddedBudget([0, 100]), &config);
        assert_eq!((nothing.cut([1, 1]), nothing.limit([1, 1], 0)), (None, 0));
    }
}
