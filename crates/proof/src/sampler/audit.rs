//! What a plan is, counted from ids and lengths alone.

use plimsoll_sampler::Batches;

/// What a plan is, counted from ids and lengths alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Audit {
    /// Number of batches.
    pub n_batches: u64,
    /// Batches whose size times their longest, or times their cell, exceeds the budget on an axis.
    pub over_budget: u64,
    /// Samples that are missing or come more than once.
    pub not_once: u64,
    /// The greatest part of the budget that a batch takes on an axis: above 1 where it exceeds it.
    pub most_of_budget: f64,
    /// On each axis, the part of the padded block that is padding: 0 to 1.
    pub waste: Vec<f64>,
}

impl Audit {
    /// Counts the batches of a plan.
    pub fn new<const AXES: usize>(lengths: &[Vec<u32>; AXES], budget: [u64; AXES], batches: &Batches<AXES>) -> Self {
        Self::of(lengths, budget, batches.iter().map(|it| (it.ids, it.cell)))
    }

    /// Counts batches of these ids, each with its cell, or zeros where it has none.
    pub(super) fn of<'a, const AXES: usize>(
        lengths: &[Vec<u32>; AXES],
        budget: [u64; AXES],
        batches: impl Iterator<Item = (&'a [u32], [u32; AXES])>,
    ) -> Self {
        let (mut n_batches, mut over_budget, mut most_of_budget) = (0, 0, 0.0_f64);
        let (mut sums, mut blocks) = ([0; AXES], [0; AXES]);
        let mut times = vec![0u8; lengths[0].len()];
        for (ids, cell) in batches {
            let mut part = 0.0_f64;
            for (axis, lengths) in lengths.iter().enumerate() {
                let of = || ids.iter().map(|id| lengths[*id as usize]);
                let (n, longest) = (ids.len() as u64, of().max().unwrap_or(0));
                sums[axis] += of().map(u64::from).sum::<u64>();
                blocks[axis] += n * u64::from(longest);
                part = part.max((n * u64::from(longest.max(cell[axis]))) as f64 / budget[axis] as f64);
            }
            n_batches += 1;
            over_budget += u64::from(part > 1.0);
            most_of_budget = part.max(most_of_budget);
            for id in ids {
                times[*id as usize] = times[*id as usize].saturating_add(1);
            }
        }
        let waste = sums.iter().zip(blocks).map(|(sum, block)| 1.0 - *sum as f64 / block as f64).collect();
        let not_once = times.iter().filter(|it| **it != 1).count() as u64;
        Self { n_batches, over_budget, not_once, most_of_budget, waste }
    }

    /// The waste on the axis that has most of it.
    pub fn most_waste(&self) -> f64 {
        self.waste.iter().copied().fold(0.0, f64::max)
    }
}

/// How many batch mates meet again in the next epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Kept {
    /// The share of a batch's pairs, each batch of more than one sample counted alike.
    pub(super) by_batch: f64,
    /// The share of all pairs.
    pub(super) over_pairs: f64,
}

impl Kept {
    /// Holds the batches of an epoch against those of the next.
    pub(super) fn new<'a>(
        here: impl Iterator<Item = &'a [u32]>,
        next: impl Iterator<Item = &'a [u32]> + Clone,
    ) -> Self {
        let n_ids = next.clone().flatten().max().map_or(0, |most| *most as usize + 1);
        let mut batch_in_next = vec![0; n_ids];
        for (batch, ids) in (0u32..).zip(next) {
            for id in ids {
                batch_in_next[*id as usize] = batch;
            }
        }
        let pairs = |n: usize| (n * n.saturating_sub(1) / 2) as f64;
        let (mut kept, mut all, mut shares, mut n_batches, mut mates) = (0.0, 0.0, 0.0, 0.0, Vec::new());
        for ids in here.filter(|ids| ids.len() > 1) {
            mates.clear();
            mates.extend(ids.iter().map(|id| batch_in_next[*id as usize]));
            mates.sort_unstable();
            let of_batch: f64 = mates.chunk_by(|a, b| a == b).map(|same| pairs(same.len())).sum();
            kept += of_batch;
            all += pairs(ids.len());
            shares += of_batch / pairs(ids.len());
            n_batches += 1.0;
        }
        Self { by_batch: shares / f64::max(n_batches, 1.0), over_pairs: kept / f64::max(all, 1.0) }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_sampler::{BatchPlanner, PaddedBudget, PlanConfig, SampleIndex, mates_kept};
    use plimsoll_types::Fraction;

    use super::*;

    #[test]
    fn each_fault_is_counted() {
        let lengths = [vec![3, 1, 4, 2], vec![1, 1, 1, 5]];
        let batches: [(&[u32], [u32; 2]); 3] = [(&[0, 1], [5, 1]), (&[2, 3], [4, 5]), (&[3], [2, 5])];
        let audit = Audit::of(&lengths, [8, 9], batches.into_iter());
        // Blocks of 6, 8 and 2, then of 2, 10 and 5; the first batch is above the budget in its cell alone.
        let waste = vec![1.0 - 12.0 / 16.0, 1.0 - 13.0 / 17.0];
        let most_of_budget = 10.0 / 8.0;
        assert_eq!(audit, Audit { n_batches: 3, over_budget: 2, not_once: 1, most_of_budget, waste });
        assert_eq!(Audit::of(&lengths, [8, 9], batches.into_iter().take(1)).not_once, 2);
        assert!((audit.most_waste() - 0.25).abs() < 1e-12);
    }

    #[test]
    fn mates_are_counted_in_pairs() {
        let lengths: Vec<u32> = (1..=600).collect();
        let index = SampleIndex::try_new([lengths]).unwrap();
        let config = PlanConfig { most_mates_kept: Fraction::ONE, ..PlanConfig::default() };
        let planner = BatchPlanner::try_new(index, PaddedBudget([2_000]), config).unwrap();
        let (here, next) = (planner.plan_epoch(0), planner.plan_epoch(1));
        // All lengths differ, so that every epoch has the same batches, the small and the large.
        assert_eq!(kept(&here, &next), Kept { by_batch: 1.0, over_pairs: 1.0 });
        let small = PlanConfig { window: Some(40), ..planner.config().clone() };
        let apart = BatchPlanner::try_new(planner.index().clone(), PaddedBudget([2_000]), small).unwrap().plan_epoch(1);
        let Kept { by_batch, over_pairs } = kept(&here, &apart);
        assert!(0.0 < over_pairs && over_pairs < 0.2, "{over_pairs}");
        assert!((by_batch - mates_kept(&here, &apart)).abs() < 1e-12, "{by_batch}");
    }

    fn kept(here: &Batches<1>, next: &Batches<1>) -> Kept {
        Kept::new(here.iter().map(|it| it.ids), next.iter().map(|it| it.ids))
    }
}
