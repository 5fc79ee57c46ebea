//! What is wanted of a plan.

use plimsoll_types::Fraction;

use crate::{Lattice, PlanError};

/// What is wanted of a plan; the defaults suit training on one task.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanConfig<const AXES: usize> {
    /// Where the order comes from, together with the epoch.
    pub seed: u64,
    /// How many samples are sorted at a time: the dial between padding (large) and mixing (small).
    /// Chosen by [`PlanConfig::window`] unless given.
    pub window: Option<usize>,
    /// The share of a batch's pairs that may share a batch in the next epoch too; 1 is no limit.
    /// Samples of one cell of the lattice are mixed in any case, since they are padded alike.
    /// Where the window and the cells would keep more, neighbours in length are mixed, until that takes more padding
    /// than it is worth: [`crate::Mixing`] says how far an epoch can come, and how far it has.
    pub most_mates_kept: Fraction,
    /// The most samples of a batch, whatever the capacity rule allows; at least 1.
    #[doc(alias = "max_batch_size")]
    #[doc(alias = "max_sentences")]
    pub most_samples: u32,
    /// Every batch has a multiple of so many samples, but for what is left at the end of an epoch; at least 1.
    /// A stream also makes smaller batches of what half of its buffer has no room to keep: a quarter of the samples are kept
    /// at most.
    /// A [`crate::StepPlanner`] cuts batches where its steps end, whatever the multiple.
    #[doc(alias = "required_batch_size_multiple")]
    pub multiple_of: u32,
    /// Whether what does not fill a batch at the end of an epoch is left out of it, rather than a smaller batch.
    /// With `multiple_of`, that is what is left beyond a multiple.
    pub drop_last: bool,
    /// The edges that batches are padded to.
    /// Samples are arranged by their cells, not by their lengths: a few edges mix more, and more of them pad less.
    pub lattice: Lattice<AXES>,
    /// What a good plan has little of.
    pub objective: Objective,
    /// What becomes of a sample that does not fit even alone.
    pub oversize: Oversize,
    /// How tasks are mixed.
    pub tasks: TaskMix,
}

/// What a good plan has little of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Objective {
    /// Batches.
    FewestBatches,
    /// Time, on one axis: the samples' times at their padded length, and this time for each batch in the same unit.
    LeastTime {
        /// Time of a batch that does not depend on what is in it.
        batch_overhead: f64,
    },
}

/// What becomes of a sample that does not fit even alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oversize {
    /// There is no plan.
    Refuse,
    /// It is planned with the greatest length that fits, and has to be cut to its batch's cell.
    Truncate,
    /// It is left out of every epoch.
    Skip,
}

/// What ends an epoch of tasks with shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EpochEnd {
    /// Every sample comes once: a task that has no more is left to the others.
    #[default]
    AllOnce,
    /// The first task that has no more: the shares hold to the end, and of the larger tasks each epoch has other samples.
    FirstExhausted,
    /// The last task of which every sample has come: the shares hold to the end, and samples of the smaller tasks come
    /// again, in a new order.
    LastExhausted,
}

/// How the tasks of the samples are mixed.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskMix {
    /// The share of each task, for as long as each has samples left; the data set's own shares unless given.
    pub shares: Option<Vec<f64>>,
    /// What ends an epoch of tasks with shares.
    pub ends: EpochEnd,
    /// Whether shares that do not sum to one are divided by their sum, rather than refused.
    pub normalize_shares: bool,
    /// 0: the fit in length alone decides which sample comes next.
    /// 1: every batch has the tasks' shares, whatever the padding.
    /// Between the two, the priority of a sample is `(1 − w) · fit + w · diversity`.
    /// Above 0, the order of the batches keeps the shares too, which costs no padding.
    pub diversity_weight: Fraction,
    /// Whether each batch has samples of one task only.
    pub homogeneous: bool,
}

impl Default for TaskMix {
    fn default() -> Self {
        Self {
            shares: None,
            ends: EpochEnd::AllOnce,
            normalize_shares: false,
            diversity_weight: fraction(DIVERSITY_WEIGHT),
            homogeneous: false,
        }
    }
}

impl<const AXES: usize> Default for PlanConfig<AXES> {
    fn default() -> Self {
        Self {
            seed: 0,
            window: None,
            most_mates_kept: fraction(MATES_KEPT),
            most_samples: u32::MAX,
            multiple_of: 1,
            drop_last: false,
            lattice: Lattice::default(),
            objective: Objective::FewestBatches,
            oversize: Oversize::Refuse,
            tasks: TaskMix::default(),
        }
    }
}

/// The weight of diversity in the first heterogeneous multi-task system that this one follows.
const DIVERSITY_WEIGHT: f64 = 0.5;

/// Four in a hundred is what the best bucketing samplers reach.
/// Counted over all pairs rather than over batches, so that large batches weigh more, the share is up to a third higher.
const MATES_KEPT: f64 = 0.03;

/// Samples of a window on one axis: some 300 batches of 50, which pads speech by 0.4 % and chats by 1.4 %.
pub(super) const WINDOW: usize = 1 << 14;

/// Below this number, one window holds all: a quarter of a million are sorted in under 10 ms.
pub(super) const ALL: usize = 1 << 18;

/// Each further axis divides the window into bands, some ten to twenty of them.
const BANDS: usize = 16;

fn fraction(ratio: f64) -> Fraction {
    Fraction::try_new(ratio).expect("a constant between 0 and 1")
}

impl<const AXES: usize> PlanConfig<AXES> {
    /// How many samples are sorted at a time, made equal over the epoch: what was asked for, or else everything up to a
    /// quarter of a million, and 16 Ki, times 16 for each axis beyond the first, above.
    pub fn window(&self, n_samples: usize) -> usize {
        let large = (1..AXES).fold(WINDOW, |window, _| window.saturating_mul(BANDS));
        let default = if n_samples <= ALL { n_samples } else { large };
        let window = self.window.unwrap_or(default).max(1);
        n_samples.div_ceil(n_samples.div_ceil(window).max(1)).max(1)
    }

    /// Checks what a type cannot.
    pub(super) fn check(&self) -> Result<(), PlanError> {
        if self.window == Some(0) {
            return Err(PlanError::BelowOne { key: "window" });
        }
        if self.most_samples == 0 {
            return Err(PlanError::BelowOne { key: "most_samples" });
        }
        if self.tasks.ends != EpochEnd::AllOnce && self.tasks.shares.is_none() {
            return Err(PlanError::EndsWithoutShares);
        }
        if self.multiple_of == 0 {
            return Err(PlanError::BelowOne { key: "multiple_of" });
        }
        if self.multiple_of > 1 && self.objective != Objective::FewestBatches {
            return Err(PlanError::MultipleObjective { multiple: self.multiple_of });
        }
        match self.objective {
            Objective::FewestBatches => Ok(()),
            _ if AXES != 1 => Err(PlanError::OneAxis { n_axes: AXES }),
            Objective::LeastTime { batch_overhead } if !(batch_overhead >= 0.0 && batch_overhead.is_finite()) => {
                Err(PlanError::BatchOverhead { batch_overhead })
            }
            Objective::LeastTime { .. } => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_equal_over_the_epoch() {
        let config = |window| PlanConfig::<1> { window, ..PlanConfig::default() };
        assert_eq!(config(None).window(100_000), 100_000);
        assert_eq!(config(None).window(1_000_000), 16_130);
        assert_eq!(config(Some(16_384)).window(100_000), 14_286);
        assert_eq!(config(Some(16_384)).window(10), 10);
        assert_eq!(PlanConfig::<2>::default().window(1 << 20), 1 << 18);
    }

    #[test]
    fn settings_that_cannot_be_are_refused_by_name() {
        let config = PlanConfig::<1> { window: Some(0), ..PlanConfig::default() };
        assert_eq!(config.check().unwrap_err().to_string(), "plan batches: `window` is 0, it must be at least 1");
        let objective = Objective::LeastTime { batch_overhead: -1.0 };
        let config = PlanConfig::<1> { objective, ..PlanConfig::default() };
        let message = "plan batches: `batch_overhead` is -1, it must be a number from 0";
        assert_eq!(config.check().unwrap_err().to_string(), message);
        let config =
            PlanConfig::<2> { objective: Objective::LeastTime { batch_overhead: 1.0 }, ..PlanConfig::default() };
        let message = "plan batches: this objective is for one axis, the samples have 2";
        assert_eq!(config.check().unwrap_err().to_string(), message);
    }
}
