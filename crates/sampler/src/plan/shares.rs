//! Which task comes next.

use plimsoll_types::Fraction;

use super::config::{EpochEnd, TaskMix};
use crate::{IndexError, PlanError};

/// How far from one the sum of shares may be: what twelve digits after the point leave of a million tasks.
const SUM_TOLERANCE: f64 = 1e-6;

/// The share of each task that still has samples, and zero for the others.
///
/// # Errors
///
/// [`PlanError::ShareCount`], [`PlanError::Share`] and [`PlanError::ShareSum`].
pub(super) fn check_shares(wanted: &[f64], sizes: &[usize], mix: &TaskMix) -> Result<Vec<f64>, PlanError> {
    if wanted.len() < sizes.len() {
        return Err(PlanError::ShareCount { shares: wanted.len(), n_tasks: sizes.len() });
    }
    for (task, share) in wanted.iter().copied().enumerate() {
        let n_samples = sizes.get(task).copied().unwrap_or(0);
        let least_ok = if n_samples > 0 { share > 0.0 } else { share >= 0.0 };
        if !(least_ok && share.is_finite()) {
            return Err(PlanError::Share { task, share, n_samples });
        }
    }
    normalized(wanted, mix)
}

/// Shares that sum to one; any may be divided by their sum where that is asked for.
///
/// # Errors
///
/// [`PlanError::ShareSum`].
pub(super) fn normalized(wanted: &[f64], mix: &TaskMix) -> Result<Vec<f64>, PlanError> {
    let sum: f64 = wanted.iter().sum();
    let may_be = if mix.normalize_shares { sum > 0.0 } else { (sum - 1.0).abs() <= SUM_TOLERANCE };
    if may_be {
        return Ok(wanted.iter().map(|share| share / sum).collect());
    }
    // As it is told.
    Err(PlanError::ShareSum { sum: (sum * 1e6).round() / 1e6 })
}

/// Shares by temperature: the sizes to the power of 1 / temperature, divided by their sum.
///
/// 1 gives the sizes' own shares, more makes them more equal.
///
/// # Errors
///
/// [`PlanError::Temperature`] when it is no number above 0, [`IndexError::NoSamples`] when all sizes are 0.
///
/// ```
/// let shares = plimsoll_sampler::temperature_shares(&[100, 10_000], 2.0)?;
/// assert!((shares[0] - 10.0 / 110.0).abs() < 1e-12);
/// # Ok::<(), plimsoll_sampler::SamplerError>(())
/// ```
pub fn temperature_shares(sizes: &[usize], temperature: f64) -> Result<Vec<f64>, PlanError> {
    if !(temperature > 0.0 && temperature.is_finite()) {
        return Err(PlanError::Temperature { temperature });
    }
    let most = sizes.iter().copied().max().filter(|most| *most > 0).ok_or(IndexError::NoSamples)? as f64;
    // Relative to the largest, so that no power overflows.
    let weights = sizes.iter().map(|size| (*size as f64 / most).powf(1.0 / temperature));
    let sum: f64 = weights.clone().sum();
    Ok(weights.map(|weight| weight / sum).collect())
}

/// How many samples of each task an epoch has.
///
/// # Errors
///
/// [`PlanError::ShareTooSmall`] when a small share of a large task makes an epoch too long.
pub(super) fn quotas(shares: &[f64], sizes: &[usize], ends: EpochEnd, most: u64) -> Result<Vec<u64>, PlanError> {
    let credits = shares.iter().zip(sizes).filter(|(_, size)| **size > 0).map(|(share, size)| *size as f64 / share);
    let credit = match ends {
        EpochEnd::AllOnce => return Ok(sizes.iter().map(|size| *size as u64).collect()),
        EpochEnd::FirstExhausted => credits.fold(f64::INFINITY, f64::min),
        EpochEnd::LastExhausted => credits.fold(0.0, f64::max),
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and is checked below")]
    let quota = |(share, size): (&f64, &usize)| if *size == 0 { 0 } else { ((share * credit).round() as u64).max(1) };
    let quotas: Vec<u64> = shares.iter().zip(sizes).map(quota).collect();
    let n_samples = quotas.iter().fold(0, |sum: u64, quota| sum.saturating_add(*quota));
    if n_samples <= most {
        return Ok(quotas);
    }
    let tasks = shares.iter().copied().zip(sizes.iter().copied()).enumerate().filter(|(_, (_, size))| *size > 0);
    let last = tasks.max_by(|a, b| (a.1.1 as f64 / a.1.0).total_cmp(&(b.1.1 as f64 / b.1.0)));
    let (task, (share, size)) = last.unwrap_or_default();
    Err(PlanError::ShareTooSmall { task, share, size, n_samples, most })
}

/// The task that comes next so that, over every stretch from the start, each has its share to within one sample.
///
/// `taken` are the samples so far of each task that takes part, and `shares` sum to one over these.
/// Of the tasks that may get a sample without being too far ahead, the one is taken whose deadline is the first.
///
/// # Sources
///
/// Tijdeman, "The chairman assignment problem", Discrete Mathematics 32, 1980: no task is ever further from its share
/// than 1 − 1 / (2k − 2) with `k` tasks, so that a stretch that begins later is off by 2 − 1 / (k − 1) at most.
/// No draw could promise one sample for every stretch: `tests/it/shares.rs` has five shares for which none keeps 19 draws to it.
pub(super) fn next_task(shares: impl Iterator<Item = (usize, f64, u64)> + Clone, n_tasks: usize) -> Option<usize> {
    let slack = 1.0 / (2 * n_tasks.max(2) - 2) as f64;
    let step = (shares.clone().map(|(_, _, taken)| taken).sum::<u64>() + 1) as f64;
    let lack = |(task, share, taken): (usize, f64, u64)| (task, share, share * step - taken as f64);
    let deadline = |(_, share, lack): &(usize, f64, f64)| (1.0 - slack - lack) / share;
    let may = shares.clone().map(lack).filter(|(_, _, lack)| *lack >= slack);
    let first = may.min_by(|a, b| deadline(a).total_cmp(&deadline(b)));
    // Rounding may leave nobody; then whoever lacks most.
    let most = || shares.map(lack).max_by(|a, b| a.2.total_cmp(&b.2));
    first.or_else(most).map(|(task, _, _)| task)
}

/// A task in an epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskPlan {
    /// Its samples in an epoch; a task without any is left out, and the others take its share.
    pub n_samples: u64,
    /// Its share for as long as every task has samples.
    pub share: f64,
    /// The part of the epoch after which it has no more samples, to within one sample of each task.
    /// From there on, the others take its share.
    pub lasts: Fraction,
}

/// What becomes of each task in an epoch.
pub(super) fn task_plans(shares: &[f64], sizes: &[u64]) -> Vec<TaskPlan> {
    let total = sizes.iter().sum::<u64>() as f64;
    let mut order: Vec<usize> = (0..sizes.len()).filter(|task| sizes[*task] > 0).collect();
    // A task with share s gets its n samples by the time that everybody's credit is n / s.
    let credit = |task: usize| sizes[task] as f64 / shares[task];
    order.sort_by(|a, b| credit(*a).total_cmp(&credit(*b)));
    let present: f64 = order.iter().map(|task| shares[*task]).sum();
    let mut plans = vec![TaskPlan { n_samples: 0, share: 0.0, lasts: Fraction::ZERO }; sizes.len()];
    for task in &order {
        let drawn: f64 = (0..sizes.len()).map(|other| (credit(*task) * shares[other]).min(sizes[other] as f64)).sum();
        let lasts = Fraction::try_new(drawn / total).unwrap_or(Fraction::ONE);
        plans[*task] = TaskPlan { n_samples: sizes[*task], share: shares[*task] / present, lasts };
    }
    plans
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn checked(wanted: &[f64], sizes: &[usize], normalize_shares: bool) -> Result<Vec<f64>, String> {
        let mix = TaskMix { normalize_shares, ..TaskMix::default() };
        check_shares(wanted, sizes, &mix).map_err(|error| error.to_string())
    }

    #[test]
    fn shares_that_cannot_be_are_refused() {
        let refused = |wanted: &[f64]| checked(wanted, &[10, 20], false).unwrap_err();
        assert_eq!(refused(&[1.0]), "plan batches: there are 1 task shares for 2 tasks");
        let sum =
            "plan batches: the task shares sum to 0.75, not to 1; set `normalize_shares` to divide them by their sum";
        assert_eq!(refused(&[0.5, 0.25]), sum);
        let zero = "plan batches: the share of task 1 is 0, it must be above 0, since the task has 20 samples";
        assert_eq!(refused(&[1.0, 0.0]), zero);
        let small = quotas(&[1e-9, 1.0], &[1_000, 20], EpochEnd::LastExhausted, 1 << 32).unwrap_err();
        let message = "plan batches: the share of task 0 is 0.000000001, so that an epoch in which each of its 1000 samples \
                       comes has 1000000001000, at most 4294967296 may be; a larger share or another `ends` would do";
        assert_eq!(small.to_string(), message);
        assert!(checked(&[f64::NAN, 1.0], &[10, 20], true).is_err());
        assert!(checked(&[-0.5, 1.5], &[0, 20], true).is_err());
        assert_eq!(checked(&[1.0, 3.0], &[10, 20], true), Ok(vec![0.25, 0.75]));
    }

    #[test]
    fn a_task_that_an_epoch_lacks_is_said() {
        let plans = task_plans(&[0.5, 0.25, 0.25], &[100, 0, 300]);
        assert_eq!((plans[1].n_samples, plans[1].lasts), (0, Fraction::ZERO));
        // Two thirds and one third: the hundred samples of task 0 are drawn with fifty of task 2.
        assert!((plans[0].share - 2.0 / 3.0).abs() < 1e-12 && (plans[0].lasts.get() - 0.375).abs() < 1e-12);
        assert_eq!(plans[2].lasts, Fraction::ONE);
    }

    proptest! {
        #[test]
        fn every_prefix_has_the_shares_to_within_one_and_every_stretch_to_within_two(weights in prop::collection::vec(1u32..1000, 1..9)) {
            let sum: u32 = weights.iter().sum();
            let shares: Vec<f64> = weights.iter().map(|weight| f64::from(*weight) / f64::from(sum)).collect();
            let mut taken = vec![0u64; shares.len()];
            let most = 1.0 - 1.0 / (2 * shares.len().max(2) - 2) as f64 + 1e-9;
            let mut extremes = vec![(0.0_f64, 0.0_f64); shares.len()];
            for step in 1..=2000 {
                let all = shares.iter().zip(&taken).enumerate().map(|(task, (share, taken))| (task, *share, *taken));
                let task = next_task(all, shares.len()).unwrap();
                taken[task] += 1;
                for ((share, taken), (least, greatest)) in shares.iter().zip(&taken).zip(&mut extremes) {
                    let off = share * f64::from(step) - *taken as f64;
                    prop_assert!(off.abs() <= most, "{} after {}", off, step);
                    (*least, *greatest) = (least.min(off), greatest.max(off));
                    prop_assert!(*greatest - *least <= 2.0 * most, "a stretch before {}", step);
                }
            }
        }
    }
}
