//! Samples, and the ways to plan them.

use plimsoll_sampler::edges;
use plimsoll_sampler::{BatchPlanner, Lattice, Objective, PaddedBudget, PlanConfig, SampleIndex, SamplerError};
use plimsoll_types::Fraction;

use super::audit::Audit;

/// Samples, and what a batch may hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Set<const AXES: usize> {
    /// What the lengths are of.
    pub name: String,
    /// Lengths on each axis; none is zero or above the axis's budget.
    pub lengths: [Vec<u32>; AXES],
    /// The task of each sample, where there are tasks.
    pub tasks: Option<Vec<u16>>,
    /// The most that batch size times longest may be, on each axis.
    pub budget: [u64; AXES],
}

/// How the samples are planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// With this many samples in a window, and the defaults otherwise.
    Window(usize),
    /// With the defaults.
    Default,
    /// All in one window, with as little padding as can be and no mixing of neighbours.
    WholeEpoch,
    /// With the defaults, and every batch padded to one of so many edges on each axis, those that pad least.
    Edges(u32),
}

impl<const AXES: usize> Set<AXES> {
    /// Makes a planner of a copy of the lengths.
    ///
    /// # Errors
    ///
    /// [`SamplerError`] when a sample has no length or does not fit.
    pub fn planner(&self, config: PlanConfig<AXES>) -> Result<BatchPlanner<PaddedBudget<AXES>, AXES>, SamplerError> {
        let index = SampleIndex::try_new(self.lengths.clone())?;
        let index = if let Some(tasks) = &self.tasks { index.with_tasks(tasks.clone())? } else { index };
        Ok(BatchPlanner::try_new(index, PaddedBudget(self.budget), config)?)
    }

    /// The least waste of all plans with the fewest batches; `None` on more than one axis, where no way is known.
    ///
    /// # Errors
    ///
    /// As [`Self::planner`].
    pub fn optimum_waste(&self) -> Result<Option<f64>, SamplerError> {
        if AXES != 1 {
            return Ok(None);
        }
        // A batch costs more than all padding together, so that the least time has the fewest batches.
        let longest = self.lengths[0].iter().max().copied().unwrap_or(0);
        let batch_overhead = self.lengths[0].len() as f64 * f64::from(longest);
        let objective = Objective::LeastTime { batch_overhead };
        let planner = self.planner(PlanConfig { objective, ..Setting::WholeEpoch.config(&self.lengths)? })?;
        Ok(Some(Audit::new(&self.lengths, self.budget, &planner.plan_epoch(0)).most_waste()))
    }
}

impl Setting {
    /// What the planner is told.
    ///
    /// # Errors
    ///
    /// [`SamplerError::Plan`] for lengths that have no edges.
    pub fn config<const AXES: usize>(self, lengths: &[Vec<u32>; AXES]) -> Result<PlanConfig<AXES>, SamplerError> {
        let default = PlanConfig::default();
        Ok(match self {
            Self::Window(window) => PlanConfig { window: Some(window), ..default },
            Self::Default => default,
            Self::WholeEpoch => PlanConfig { window: Some(usize::MAX), most_mates_kept: Fraction::ONE, ..default },
            Self::Edges(k) => {
                let of = |axis: &Vec<u32>| edges(axis, k, 1).map_or(vec![0], |found| found.edges);
                PlanConfig { lattice: Lattice::try_new(lengths.each_ref().map(of))?, ..default }
            }
        })
    }

    /// What the planner is told, in a word.
    pub fn name(self) -> String {
        match self {
            Self::Window(window) => format!("window {} Ki", window >> 10),
            Self::Default => "default".to_owned(),
            Self::WholeEpoch => "whole epoch".to_owned(),
            Self::Edges(k) => format!("{k} edges"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_optimum_has_the_least_padding_of_the_fewest_batches() {
        let set = |lengths: Vec<u32>| Set { name: String::new(), lengths: [lengths], tasks: None, budget: [12] };
        // Two batches at least. Longest first fills (6, 2) and (1, 1), and pads 4 of 14; (6) and (2, 1, 1) pad 2 of 12.
        let waste = set(vec![1, 2, 6, 1]).optimum_waste().unwrap().unwrap();
        assert!((waste - 2.0 / 12.0).abs() < 1e-12, "{waste}");
        // Three batches would pad nothing, but two are enough: (6, 5) and (1).
        let waste = set(vec![1, 5, 6]).optimum_waste().unwrap().unwrap();
        assert!((waste - 1.0 / 13.0).abs() < 1e-12, "{waste}");
    }
}
