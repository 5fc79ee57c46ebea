//! What cannot be sampled.

use plimsoll_types::{Bytes, StepShape};

/// A request that cannot be served; each message finishes "failed to …".
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum SamplerError {
    /// There is nothing to draw from.
    #[error("start an epoch: the data set has no samples")]
    NoSamples,
    /// An image is smaller than the crop.
    #[error("crop {edge} × {edge} px from image {image}, which has {width} × {height} px at the input resolution")]
    ImageTooSmall {
        /// Index of the image.
        image: u64,
        /// Width of the image in pixels at the input resolution.
        width: u32,
        /// Height of the image in pixels at the input resolution.
        height: u32,
        /// Edge of the crop in pixels at the input resolution.
        edge: u32,
    },
    /// A micro-batch is larger than the buffer was built for.
    #[error("begin a micro-batch of {wanted} px, the host buffer holds at most {most} px")]
    BeyondCapacity {
        /// The samples and the edge asked for.
        wanted: StepShape,
        /// The most samples and the largest edge.
        most: StepShape,
    },
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
    /// Steps take every sample of an epoch.
    #[error("plan steps: `drop_last` is for batches, a step takes what is left of the epoch")]
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
    /// Samples of a step are too long for every device.
    #[error("deal a step: no device holds a sample that is padded to {length}")]
    NobodyTakes {
        /// The length.
        length: u32,
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
    /// Samples are drawn by one rule only.
    #[error("plan batches: the samples have weights, and the tasks `shares`; set one of them")]
    WeightsAndShares,
    /// Without shares, every sample comes once.
    #[error("plan batches: `ends` is for tasks with `shares`, which are not set")]
    EndsWithoutShares,
    /// A temperature is no number above zero.
    #[error("share tasks: the temperature is {temperature}, it must be a number above 0")]
    Temperature {
        /// The value given.
        temperature: f64,
    },
    /// The shares do not sum to one.
    #[error(
        "plan batches: the task shares sum to {}, not to 1; set `normalize_shares` to divide them by their sum",
        (sum * 1e6).round() / 1e6
    )]
    ShareSum {
        /// Their sum.
        sum: f64,
    },
    /// A position was taken in another plan.
    #[error("resume an epoch: the position was taken with `{key}` {taken}, the plan has {here}")]
    OtherPlan {
        /// What differs.
        key: &'static str,
        /// The position's value.
        taken: u64,
        /// The plan's value.
        here: u64,
    },
    /// A position lies outside its epoch.
    #[error("resume an epoch: the position says `{key}` {value}, at most {most} is possible")]
    BeyondEpoch {
        /// What is out of range.
        key: &'static str,
        /// The position's value.
        value: u64,
        /// The most that is possible.
        most: u64,
    },
    /// A sample is longer than a row may be.
    #[error(
        "pack rows: sample {id} has length {length}, a row of `row_len` {row_len} has room for {limit}; set a longer \
         `row_len`, or cut samples"
    )]
    BeyondRow {
        /// The first such sample.
        id: u64,
        /// Its length.
        length: u32,
        /// Positions of a row.
        row_len: u32,
        /// The longest piece that a row may have, by its length and by its squares.
        limit: u32,
    },
    /// Pieces of a sample would repeat all of one another.
    #[error("pack rows: `overlap` is {overlap}, it must be below {limit}, the length of a piece")]
    Overlap {
        /// The value given.
        overlap: u32,
        /// The length of a piece.
        limit: u32,
    },
    /// Samples are cut into more pieces than a plan can tell apart.
    #[error("pack rows: there are {n_pieces} pieces, a plan holds at most {most}; set a longer `row_len`")]
    TooManyPieces {
        /// Number of pieces.
        n_pieces: u64,
        /// The most that a plan holds.
        most: u64,
    },
    /// A row does not fit even alone.
    #[error(
        "take packed rows: a row of {positions} positions whose squares sum to {squares} does not fit even alone; set a \
         shorter `row_len`, or lower `row_squares`"
    )]
    RowLoad {
        /// Positions of the row.
        positions: u64,
        /// The sum of the squares of its pieces' lengths.
        squares: u64,
    },
    /// A stream has no end by which shares could be kept.
    #[error("plan a stream: `shares` are for epochs, a stream has the tasks that come")]
    StreamShares,
    /// A streamed sample is too large for the look-ahead buffer.
    #[error("buffer sample {id}: it has {bytes}, half of the stream's buffer is {limit}")]
    BufferedSample {
        /// The sample.
        id: u64,
        /// Its size in host memory.
        bytes: Bytes,
        /// The most that one sample may have.
        limit: Bytes,
    },
    /// There are more numbers of groups, or fewer, than samples.
    #[error("group samples: there are {groups} numbers of groups for {n_samples} samples")]
    GroupCount {
        /// Numbers given.
        groups: usize,
        /// Number of samples.
        n_samples: usize,
    },
    /// A setting would tear groups apart.
    #[error("group samples: `{key}` is {value}, groups stay whole")]
    NotForGroups {
        /// Name of the setting.
        key: &'static str,
        /// What it says.
        value: &'static str,
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
    /// The samples of a group do not fit into a row together.
    #[error(
        "group samples: group {group} has length {length} in all, a row has room for {limit}; set a longer `row_len`"
    )]
    GroupBeyondRow {
        /// The first such group.
        group: u32,
        /// The sum of its samples' lengths.
        length: u64,
        /// The greatest length that a row may have in one piece.
        limit: u32,
    },
    /// Streams are mixed in no shares.
    #[error("mix streams: `shares` are not set, and nobody knows how long the sources are")]
    NoShares,
    /// The share of a source is negative or no number.
    #[error("mix streams: the share of source {number} is {share}, it must be a number from 0")]
    SourceShare {
        /// Number of the source, from 0.
        number: usize,
        /// Its share.
        share: f64,
    },
    /// A source without samples would have to come again, or to end every epoch.
    #[error("mix streams: source {number} has no samples, and would have to begin again without end")]
    EmptySource {
        /// Number of the source, from 0.
        number: usize,
    },
    /// A streamed sample would be cut into more pieces than one may have.
    #[error(
        "pack a stream: sample {id} would be cut into {n_pieces} pieces, at most {most} are held; set a longer `row_len`"
    )]
    ManyPieces {
        /// The sample.
        id: u64,
        /// Its pieces.
        n_pieces: u32,
        /// The most of one sample.
        most: u32,
    },
    /// A stream was given a sample of which it still holds a piece.
    #[error("pack a stream: sample {id} came again while a piece of it is held")]
    HeldTwice {
        /// The sample.
        id: u64,
    },
    /// A resumed stream was given a sample before those that its position holds.
    #[error(
        "resume a stream: sample {id} came before {n_missing} that the position holds; push those first, or leave them \
         out"
    )]
    NotPending {
        /// The sample.
        id: u64,
        /// How many of the position's samples have not come yet.
        n_missing: u64,
    },
    /// A sample is longer than its batch is padded to, or the host buffer is full.
    #[error("collate sample {id}: `{axis}` would be {size}, the limit is {limit}")]
    DoesNotFit {
        /// The sample.
        id: u64,
        /// The axis of the sample, or the product of axes of the whole batch.
        axis: &'static str,
        /// Its length.
        size: u64,
        /// The most that the cell, the lattice or the buffer holds.
        limit: u64,
    },
    /// An image is not as large as it says.
    #[error(
        "collate sample {id}: image {index} has {bytes} bytes, {channels} channels of {height} × {width} px (height × \
         width) take {}",
        u128::from(*channels) * u128::from(*height) * u128::from(*width)
    )]
    ImageBytes {
        /// The sample.
        id: u64,
        /// Number of the image in its sample, from 0.
        index: usize,
        /// Bytes of the image.
        bytes: usize,
        /// Channels of every image.
        channels: u32,
        /// Height of the image in pixels.
        height: u32,
        /// Width of the image in pixels.
        width: u32,
    },
    /// A sample has more numbers of metadata, or fewer, than the others.
    #[error("collate sample {id}: it has {numbers} numbers of metadata, the buffer was built for {expected}")]
    MetadataCount {
        /// The sample.
        id: u64,
        /// Its numbers.
        numbers: usize,
        /// Numbers of each sample.
        expected: u32,
    },
}
