//! Which device takes how many samples of each batch of a step.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::SamplerError;

/// Parts of a position that devices are owed in.
const PARTS: i128 = 1 << 20;

/// Divides the batches of one step, one after the other, between devices by the most that each holds at once.
///
/// A batch that is as large as all of them hold together gives each device one full micro-batch, however unequal they are.
/// What does not come out even is owed, in padded positions, and made good by the batches that follow.
/// A share may be empty.
///
/// It is a function of its arguments alone: devices that know each other's limits deal alike without a word.
///
/// # Example
///
/// ```
/// use plimsoll_sampler::BatchDealer;
///
/// // A card that holds 16 samples of 512 tokens beside one that holds 8; of 4 000 tokens it holds 2, and the other none.
/// let mut dealer = BatchDealer::new(2);
/// assert_eq!(dealer.deal(24, 512, &[16, 8])?, [16, 8]);
/// assert_eq!(dealer.deal(2, 4_000, &[2, 0])?, [2, 0]);
/// # Ok::<(), plimsoll_sampler::SamplerError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchDealer {
    /// What each device lacks.
    owed: Vec<i128>,
}

impl BatchDealer {
    /// Begins a step of so many devices.
    pub fn new(n_devices: usize) -> Self {
        Self { owed: vec![0; n_devices] }
    }

    /// Divides samples that are padded to one length, and returns how many each device takes.
    ///
    /// `limits` is the most that each holds at once of that length; one that holds none takes none.
    /// No device gets more micro-batches of its own limit than all together need.
    ///
    /// # Errors
    ///
    /// [`SamplerError::NobodyTakes`] where none holds any.
    ///
    /// # Panics
    ///
    /// Where there is not one limit for each device.
    pub fn deal(&mut self, n_samples: u32, length: u32, limits: &[u32]) -> Result<Vec<u32>, SamplerError> {
        assert_eq!(limits.len(), self.owed.len(), "a limit for each device");
        let at_once: u64 = limits.iter().copied().map(u64::from).sum();
        if at_once == 0 {
            return Err(SamplerError::NobodyTakes { index: 0, cost: length.into(), largest: 0 });
        }
        let n_rounds = u64::from(n_samples).div_ceil(at_once);
        let most = |at: usize| i128::from(u64::from(limits[at]) * n_rounds);
        let sample = i128::from(length.max(1)) * PARTS;
        for (owed, limit) in self.owed.iter_mut().zip(limits) {
            *owed += i128::from(n_samples) * sample * i128::from(*limit) / i128::from(at_once);
        }
        let mut counts: Vec<_> =
            self.owed.iter().enumerate().map(|(at, owed)| owed.div_euclid(sample).clamp(0, most(at))).collect();
        let dealt: i128 = counts.iter().sum();
        self.even_out(&mut counts, i128::from(n_samples) - dealt, sample, &most);
        self.owed.iter_mut().zip(&counts).for_each(|(owed, count)| *owed -= count * sample);
        Ok(counts.into_iter().map(|it| u32::try_from(it).unwrap_or(u32::MAX)).collect())
    }

    /// Gives what is left to whoever lacks most, or takes what is too many from whoever lacks least.
    fn even_out(&self, counts: &mut [i128], left: i128, sample: i128, most: &dyn Fn(usize) -> i128) {
        let (sign, may) = (left.signum(), |at: usize, n: i128| if left < 0 { 0 < n } else { n < most(at) });
        let lacks = |at: usize, n: i128| sign * (self.owed[at] - n * sample);
        let of = |at: usize, n: i128| (lacks(at, n), Reverse(at));
        let open = (0..counts.len()).filter(|at| may(*at, counts[*at]));
        let mut heap: BinaryHeap<_> = open.map(|at| of(at, counts[at])).collect();
        for _ in 0..left.abs() {
            let Some((_, Reverse(at))) = heap.pop() else { return };
            counts[at] += sign;
            if may(at, counts[at]) {
                heap.push(of(at, counts[at]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn unequal_devices_get_one_full_micro_batch_each() {
        let mut dealer = BatchDealer::new(3);
        assert_eq!(dealer.deal(35, 64, &[20, 10, 5]), Ok(vec![20, 10, 5]));
        assert_eq!(dealer.deal(70, 64, &[20, 10, 5]), Ok(vec![40, 20, 10]));
    }

    #[test]
    fn what_does_not_come_out_even_is_made_good() {
        let mut dealer = BatchDealer::new(2);
        let batches: Vec<_> = (0..3).map(|_| dealer.deal(1, 100, &[2, 1])).collect::<Result<_, _>>().unwrap();
        let sums = batches.iter().fold([0, 0], |sums, it| [sums[0] + it[0], sums[1] + it[1]]);
        assert_eq!(sums, [2, 1], "{batches:?}");
    }

    #[test]
    fn what_nobody_holds_is_an_error() {
        let error = BatchDealer::new(2).deal(3, 900, &[0, 0]).unwrap_err();
        assert_eq!(error, SamplerError::NobodyTakes { index: 0, cost: 900, largest: 0 });
    }

    /// Batches of a step: so many samples of a length, and what each of some devices holds of it.
    fn steps() -> impl Strategy<Value = Vec<(u32, u32, Vec<u32>)>> {
        (1_usize..6).prop_flat_map(|n| {
            prop::collection::vec((0_u32..80, 1_u32..600, prop::collection::vec(0_u32..20, n)), 1..9)
        })
    }

    proptest! {
        #[test]
        fn every_sample_is_dealt_once_and_nobody_needs_another_micro_batch_for_it(step in steps()) {
            let mut dealer = BatchDealer::new(step[0].2.len());
            for (n_samples, length, limits) in step {
                let at_once: u32 = limits.iter().sum();
                let Ok(counts) = dealer.deal(n_samples, length, &limits) else {
                    prop_assert_eq!(at_once, 0);
                    continue;
                };
                prop_assert_eq!(counts.iter().sum::<u32>(), n_samples);
                let n_rounds = n_samples.div_ceil(at_once);
                prop_assert!(counts.iter().zip(&limits).all(|(n, limit)| *n <= limit * n_rounds), "{:?}", counts);
            }
        }

        #[test]
        fn where_limits_stay_in_one_ratio_nobody_is_owed_more_than_two_samples(
            limits in prop::collection::vec(1_u32..20, 1..6),
            batches in prop::collection::vec((1_u32..80, 1_u32..600), 1..9),
        ) {
            let mut dealer = BatchDealer::new(limits.len());
            for (n_samples, length) in &batches {
                dealer.deal(*n_samples, *length, &limits).unwrap();
            }
            let longest = batches.iter().map(|it| i128::from(it.1)).max().unwrap();
            let furthest = dealer.owed.iter().map(|it| it.abs()).max().unwrap();
            prop_assert!(furthest <= 2 * longest * PARTS, "{:?} of {longest}", dealer.owed);
        }
    }
}
