//! What cannot be known of samples.

/// Samples of which no plan can be made; each message finishes "failed to …".
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum IndexError {
    /// There is nothing to draw from.
    #[error("start an epoch: the data set has no samples")]
    NoSamples,
    /// The data set has more samples than a plan can tell apart.
    #[error("index the samples: there are {n_samples}, a plan holds at most {most}")]
    TooManySamples {
        /// Number of samples.
        n_samples: u64,
        /// The most that a plan holds.
        most: u64,
    },
    /// One axis has lengths for more samples, or fewer, than the first.
    #[error("index the samples: axis {axis} has {lengths} lengths for {n_samples} samples")]
    AxisCount {
        /// Number of the axis, from 0.
        axis: usize,
        /// Lengths on that axis.
        lengths: usize,
        /// Lengths on the first axis.
        n_samples: usize,
    },
    /// A sample is empty.
    #[error("index the samples: sample {id} has length 0 on axis {axis}, it must be at least 1")]
    ZeroLength {
        /// The first such sample.
        id: u64,
        /// Number of the axis, from 0.
        axis: usize,
    },
    /// There are more tasks, or fewer, than samples.
    #[error("index the samples: there are {tasks} tasks for {n_samples} samples")]
    TaskCount {
        /// Tasks given.
        tasks: usize,
        /// Number of samples.
        n_samples: usize,
    },
    /// There are more weights, or fewer, than samples.
    #[error("index the samples: there are {weights} weights for {n_samples} samples")]
    WeightCount {
        /// Weights given.
        weights: usize,
        /// Number of samples.
        n_samples: usize,
    },
    /// A weight is negative or no number.
    #[error("index the samples: the weight of sample {id} is {weight}, it must be a number from 0")]
    Weight {
        /// The first such sample.
        id: u64,
        /// Its weight.
        weight: f64,
    },
    /// Nothing can be drawn in proportion to these weights.
    #[error("index the samples: the weights sum to {sum}, the sum must be a number above 0")]
    NoWeight {
        /// Their sum.
        sum: f64,
    },
    /// A sample is shorter, or longer, than wanted.
    #[error("admit samples: sample {id} has length {length}, wanted is {shortest} to {longest}")]
    Outside {
        /// The sample.
        id: u64,
        /// Its length.
        length: u32,
        /// The least that is wanted.
        shortest: u32,
        /// The most that is wanted.
        longest: u32,
    },
    /// No length can be wanted.
    #[error(
        "admit samples: `shortest` is {shortest} and `longest` is {longest}, they must be 1 <= shortest <= longest"
    )]
    AdmitsNothing {
        /// The least that is wanted.
        shortest: u32,
        /// The most that is wanted.
        longest: u32,
    },
    /// There are more numbers of groups, or fewer, than samples.
    #[error("group samples: there are {groups} numbers of groups for {n_samples} samples")]
    GroupCount {
        /// Numbers given.
        groups: usize,
        /// Number of samples.
        n_samples: usize,
    },
}
