//! What cannot be planned.

use crate::IndexError;

/// A rule or a configuration that no batches can follow; each message finishes "failed to …".
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// A setting is zero.
    #[error("plan batches: `{key}` is 0, it must be at least 1")]
    BelowOne {
        /// Name of the setting.
        key: &'static str,
    },
    /// Batches of a multiple are planned for the fewest batches only.
    #[error("plan batches: `multiple_of` is {multiple}, with this objective it must be 1")]
    MultipleObjective {
        /// The multiple that was asked for.
        multiple: u32,
    },
    /// The budget has no room for one multiple of the longest samples.
    #[error(
        "plan batches: `multiple_of` is {multiple}, it must be at most {capacity}, as many as fit of the longest samples, \
         which are padded to {length} on the last axis"
    )]
    MultipleAboveBudget {
        /// The multiple that was asked for.
        multiple: u32,
        /// How many of the longest samples fit.
        capacity: u32,
        /// What these are padded to on the last axis.
        length: u32,
    },
    /// Steps of samples or positions take every sample of an epoch.
    #[error(
        "plan steps: `drop_last` is for batches, and for steps of a batch each; others take what is left of the epoch"
    )]
    DropLastOfSteps,
    /// The time of a batch is no time.
    #[error("plan batches: `batch_overhead` is {batch_overhead}, it must be a number from 0")]
    BatchOverhead {
        /// The value given.
        batch_overhead: f64,
    },
    /// The objective is for samples of one axis.
    #[error("plan batches: this objective is for one axis, the samples have {n_axes}")]
    OneAxis {
        /// Number of axes.
        n_axes: usize,
    },
    /// The edges of a lattice do not grow.
    #[error("build a lattice: on axis {axis}, edge {edge} follows {before}, edges must grow from above 0")]
    Edges {
        /// Number of the axis, from 0.
        axis: usize,
        /// The edge that does not grow.
        edge: u32,
        /// The edge before it, 0 before the first.
        before: u32,
    },
    /// A sample does not fit even alone.
    #[error("plan batches: sample {id} has length {length} on axis {axis}, at most {limit} fits even alone")]
    Oversize {
        /// The first such sample.
        id: u64,
        /// The axis to be cut, from 0.
        axis: usize,
        /// The sample's length on that axis.
        length: u32,
        /// The greatest length on that axis that fits, with the other axes as they are; 0 when none does.
        limit: u32,
    },
    /// The capacity rule has more room for longer samples than for shorter ones.
    #[error(
        "plan batches: the capacity rule allows {fewer} samples of length {shorter} and {more} of length {longer} on \
         axis {axis}, it must not allow more of a longer one"
    )]
    NotMonotone {
        /// Number of the axis, from 0; the lengths on the others are the same.
        axis: usize,
        /// A length.
        shorter: u32,
        /// The next length that is asked for.
        longer: u32,
        /// Samples of the shorter length that are allowed.
        fewer: u32,
        /// Samples of the longer length that are allowed.
        more: u32,
    },
    /// No sample fits.
    #[error("plan batches: none of {n_samples} samples fits even alone")]
    NothingFits {
        /// Number of samples.
        n_samples: u64,
    },
    /// There are more shares, or fewer, than tasks.
    #[error("plan batches: there are {shares} task shares for {n_tasks} tasks")]
    ShareCount {
        /// Shares given.
        shares: usize,
        /// Tasks of the samples.
        n_tasks: usize,
    },
    /// A share is negative, no number, or zero for a task that has samples, each of which must come once per epoch.
    #[error(
        "plan batches: the share of task {task} is {share}, it must be above 0, since the task has {n_samples} samples"
    )]
    Share {
        /// The task.
        task: usize,
        /// Its share.
        share: f64,
        /// Samples of the task.
        n_samples: usize,
    },
    /// All samples of a task come in an epoch, and its share makes that too long.
    #[error(
        "plan batches: the share of task {task} is {share}, so that an epoch in which each of its {size} samples comes has \
         {n_samples}, at most {most} may be; a larger share or another `ends` would do"
    )]
    ShareTooSmall {
        /// The task.
        task: usize,
        /// Its share.
        share: f64,
        /// Its samples.
        size: usize,
        /// Samples of the epoch.
        n_samples: u64,
        /// The most that an epoch has.
        most: u64,
    },
    /// The shares do not sum to one.
    #[error("plan batches: the task shares sum to {sum}, not to 1; set `normalize_shares` to divide them by their sum")]
    ShareSum {
        /// Their sum, rounded to a millionth.
        sum: f64,
    },
    /// A temperature is no number above zero.
    #[error("share tasks: the temperature is {temperature}, it must be a number above 0")]
    Temperature {
        /// The value given.
        temperature: f64,
    },
    /// Without shares, every sample comes once.
    #[error("plan batches: `ends` is for tasks with `shares`, which are not set")]
    EndsWithoutShares,
    /// Samples are drawn by one rule only.
    #[error("plan batches: the samples have weights, and the tasks `shares`; set one of them")]
    WeightsAndShares,
    /// A setting would tear groups apart.
    #[error("group samples: `{key}` is {value}, groups stay whole")]
    NotForGroups {
        /// Name of the setting.
        key: &'static str,
        /// What it says.
        value: &'static str,
    },
    /// A group is more than a step takes.
    #[error("group samples: group {group} has {weight} {unit}, a step takes {most}; set larger steps")]
    GroupAboveStep {
        /// The first such group.
        group: u32,
        /// What it counts for.
        weight: u64,
        /// What is counted.
        unit: &'static str,
        /// The size of a step.
        most: u64,
    },
    /// The samples of a group do not fit together.
    #[error(
        "group samples: group {group} has {n_samples} samples, the longest of length {length}, and {capacity} of these \
         fit together"
    )]
    GroupAboveBudget {
        /// The first such group.
        group: u32,
        /// Its samples.
        n_samples: u32,
        /// The longest of them.
        length: u32,
        /// How many samples fit that are as long.
        capacity: u32,
    },
    /// The samples cannot be what they are.
    #[error(transparent)]
    Index(#[from] IndexError),
}
