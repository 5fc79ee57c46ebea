//! How far the steps of a mixture are from the shares of its sources.

use std::fmt;

use plimsoll_sampler::{
    BatchPlanner, EpochEnd, Fraction, PaddedBudget, PlanConfig, SampleIndex, SamplerError, StepPlanner, StepSize,
    TaskMix,
};
use serde::Serialize;

use super::generated::chats;

/// What part of the samples each source is wanted to have.
const SHARES: [f64; 5] = [0.4, 0.25, 0.2, 0.1, 0.05];

/// Steps of a stretch at most.
const STRETCH: usize = 20;

/// Samples of a step.
const STEP: u32 = 64;

/// Steps of five sources with wanted shares.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mixture {
    /// How much a source's lack weighs against a sample's length, from 0 to 1.
    pub diversity_weight: f64,
    /// Samples of an epoch.
    pub n: usize,
    /// The most samples by which a source is off its share in any stretch of at most 20 steps.
    pub most_off: f64,
    /// Samples of the largest batch.
    pub largest_batch: usize,
}

impl Mixture {
    /// Goes through an epoch of chats of five sources.
    ///
    /// # Errors
    ///
    /// None is known: the lengths fit and the shares add up.
    pub fn measure(n: usize, budget: u64, diversity_weight: Fraction) -> Result<Self, SamplerError> {
        let tasks: Vec<u16> = (0..n).map(|id| [0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 4][id % 11]).collect();
        let index = SampleIndex::try_new([chats(n)])?.with_tasks(tasks.clone())?;
        let ends = EpochEnd::FirstExhausted;
        let mix = TaskMix { shares: Some(SHARES.to_vec()), ends, diversity_weight, ..TaskMix::default() };
        let planner =
            BatchPlanner::try_new(index, PaddedBudget([budget]), PlanConfig { tasks: mix, ..PlanConfig::default() })?;
        let mut steps = StepPlanner::try_new(&planner, StepSize::Samples(STEP))?;
        let mut sums = vec![[0_u32; SHARES.len()]];
        loop {
            let step = steps.next_step();
            let mut sum = sums.last().copied().unwrap_or_default();
            let ids = step.batches.iter().flat_map(|batch| &batch.ids).filter_map(|id| usize::try_from(*id).ok());
            ids.for_each(|id| sum[usize::from(tasks[id])] += 1);
            sums.push(sum);
            if step.ends_epoch {
                break;
            }
        }
        let largest_batch = planner.plan_epoch(0).iter().map(|batch| batch.ids.len()).max().unwrap_or(0);
        let n = sums.last().map_or(0, |sum| sum.iter().sum::<u32>()) as usize;
        Ok(Self { diversity_weight: diversity_weight.get(), n, most_off: most_off(&sums), largest_batch })
    }
}

/// The most by which a source is off in a stretch, of sums up to the end of each step.
fn most_off(sums: &[[u32; SHARES.len()]]) -> f64 {
    let off = |from: &[u32; SHARES.len()], to: &[u32; SHARES.len()]| {
        let drawn = from.iter().zip(to).map(|(from, to)| f64::from(to - from));
        let n: f64 = drawn.clone().sum();
        drawn.zip(SHARES).map(|(drawn, share)| (drawn - share * n).abs()).fold(0.0, f64::max)
    };
    let stretches = (0..sums.len()).flat_map(|from| sums[from..].iter().take(STRETCH + 1).map(move |to| (from, to)));
    stretches.map(|(from, to)| off(&sums[from], to)).fold(0.0, f64::max)
}

impl fmt::Display for Mixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { diversity_weight, n, most_off, largest_batch } = self;
        write!(
            f,
            "{STRETCH} steps of {STEP} of {n} samples of {} sources, diversity {diversity_weight}: ",
            SHARES.len()
        )?;
        write!(f, "off by {most_off:.2} samples at most, the largest batch has {largest_batch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_off_by_what_its_steps_have_beyond_the_shares() {
        let sums = [[0; 5], [40, 25, 20, 10, 5], [41, 26, 20, 10, 5], [81, 51, 40, 20, 10]];
        // The second step has two samples, of which the second source should have half of one.
        assert!((most_off(&sums) - 0.5).abs() < 1e-12, "{}", most_off(&sums));
        assert!(most_off(&sums[..2]) < 1e-12);
        assert!((most_off(&[[0; 5], [3, 1, 0, 0, 0]]) - 1.4).abs() < 1e-12);
    }

    #[test]
    fn with_full_diversity_the_shares_are_kept_to_three_samples() {
        let mixture = Mixture::measure(11_000, 32_768, Fraction::ONE).unwrap();
        assert!(mixture.most_off < 3.0 + 1e-6 && mixture.n > 5_000, "{mixture}");
    }
}
