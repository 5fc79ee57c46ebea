//! How good a plan is.

use serde::Serialize;

use super::batches::Batches;
use super::config::Oversize;
use super::mixing::Mixing;
use super::narrow::narrow;
use super::planner::BatchPlanner;
use crate::CapacityRule;

/// What an epoch's batches cost, against what they had to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanReport {
    /// Samples in the batches.
    pub n_samples: u64,
    /// Number of batches.
    pub n_batches: u64,
    /// No plan has fewer batches: the sum of 1 / capacity over the samples, rounded up.
    pub lower_bound: u64,
    /// Batches that the capacity rule does not allow.
    pub over_budget: u64,
    /// On each axis, the part of the block that is padding when a batch is padded to its longest: 0 to 1.
    pub waste: Vec<f64>,
    /// On each axis, the part of the cells that lies beyond the longest of the batch: 0 to 1.
    /// Batches of one cell have samples of all its lengths, so that their longest is near the edge, and most of the
    /// padding is in `waste`.
    pub lattice_waste: Vec<f64>,
    /// Samples that do not fit even alone and have to be cut.
    pub truncated: u64,
    /// Samples that do not fit even alone and are left out.
    pub skipped: u64,
    /// Samples that do not fill a batch at the end of the epoch and are left out.
    pub dropped: u64,
    /// How many mates may be kept, can be, and are in the next epoch.
    pub mates_kept: Mixing,
}

/// Sums over batches, on one axis.
#[derive(Clone, Copy, Default)]
struct Sums {
    lengths: u64,
    blocks: u64,
    cells: u64,
}

impl PlanReport {
    /// By how much there are more batches than the lower bound: 0.02 stands for 2 %.
    pub fn over_lower_bound(&self) -> f64 {
        self.n_batches as f64 / self.lower_bound as f64 - 1.0
    }
}

impl<R: CapacityRule<AXES>, const AXES: usize> BatchPlanner<R, AXES> {
    /// Measures the batches that this planner has planned for an epoch, by themselves and against those of the next epoch,
    /// which it plans.
    pub fn report(&self, epoch: u64, batches: &Batches<AXES>) -> PlanReport {
        let mut sums = [Sums::default(); AXES];
        for batch in batches.iter() {
            let n = batch.ids.len() as u64;
            for (axis, sums) in sums.iter_mut().enumerate() {
                let lengths = batch.ids.iter().filter_map(|id| self.planned_lengths(*id));
                sums.lengths += lengths.map(|lengths| u64::from(lengths[axis])).sum::<u64>();
                sums.blocks += n * u64::from(batch.longest[axis]);
                sums.cells += n * u64::from(batch.cell[axis]);
            }
        }
        let over = batches.iter().filter(|batch| batch.ids.len() > self.fit.capacity(batch.longest) as usize);
        let oversize = |what| if self.config().oversize == what { self.n_oversize() as u64 } else { 0 };
        let n_missing = self.n_planned().saturating_sub(batches.n_samples());
        PlanReport {
            n_samples: batches.n_samples() as u64,
            n_batches: batches.len() as u64,
            lower_bound: self.least_batches(&batches.iter().flat_map(|batch| batch.ids).copied()),
            over_budget: over.count() as u64,
            waste: sums.iter().map(|sums| 1.0 - sums.lengths as f64 / sums.blocks as f64).collect(),
            lattice_waste: sums.iter().map(|sums| 1.0 - sums.blocks as f64 / sums.cells as f64).collect(),
            truncated: oversize(Oversize::Truncate),
            skipped: oversize(Oversize::Skip),
            dropped: if self.config().drop_last { n_missing as u64 } else { 0 },
            mates_kept: self.mixing(epoch, batches),
        }
    }

    /// A number of batches that no plan of an epoch can be below.
    ///
    /// In a batch of `n` samples, each has a capacity of at least that of the longest, so that `Σ 1 / capacity` is at
    /// most `n / capacity(longest)`, which is at most 1.
    pub fn lower_bound(&self) -> u64 {
        self.least_batches(&(0..narrow(self.index().n_samples())))
    }

    fn least_batches(&self, ids: &(impl Iterator<Item = u32> + Clone)) -> u64 {
        let planned = ids.clone().filter_map(|id| self.planned_lengths(id));
        // A rule that breaks its word where nobody looked may have no room for one that is planned.
        let part = |lengths: [u32; AXES]| match self.fit.capacity(lengths) {
            0 => 0.0,
            capacity => 1.0 / f64::from(capacity),
        };
        // Rounding of ten million terms; a bound that is one too low is still a bound.
        let bound = planned.map(part).sum::<f64>() * (1.0 - 1e-8);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most one batch per sample")]
        let bound = bound.ceil() as u64;
        bound.max(1)
    }
}
