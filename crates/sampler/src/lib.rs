//! Which samples fill this plan, in which layout?
//!
#![doc = include_str!("../README.md")]
//!
//! # How it works
//!
//! A [`BatchPlanner`] divides a [`SampleIndex`] (lengths on one axis or several, a task per sample) into [`Batches`] that
//! a [`CapacityRule`] allows, for every epoch anew; a [`StreamPlanner`] does so for samples that nobody has counted.
//! Sorted samples are padded little, and shuffled ones have new mates in every epoch; a plan has to be both.
//! So samples are drawn at random into a window, which is sorted by length and filled into batches, longest first; where
//! the window holds much of the data set, neighbours in length are mixed as well.
//! With a [`Lattice`], samples are sorted by their cells: those of one cell are padded alike, and so mixed for free.
//! [`edges`] chooses the edges of an axis that pad least, and [`cells`] those of several.
//! A [`StepPlanner`] divides the batches of epoch after epoch into optimizer steps of one size, cuts a batch where a step
//! ends, and follows another rule when the policy finds one; [`StreamSteps`] does so for a stream.
//! A [`PackPlanner`] lays samples end to end in rows instead, without padding between them: [`PackedRows`] know their
//! boundaries, positions and masks, a [`PackRule`] says how many go through the model together, and [`PackSteps`] divides
//! them into optimizer steps; [`PackStream`] and [`PackStreamSteps`] do so for a stream.
//! A [`StreamMix`] says which of several sources a stream takes its next sample from, [`MixCursor`] which sample, and
//! [`Groups`] of samples stay together.
//! [`deal_batches`] says how many samples of each batch a device takes, by its [`Speeds`].
//! A [`MixedBuffer`] holds samples of several images, tokens and labels, padded and with masks; [`EpochCursor`] draws samples
//! that are padded to nothing from a [`Permutation`].
//! [`PlanReport`] with its [`Mixing`], [`mates_kept`], [`rank_correlation`] and [`task_entropy_ratio`] say what came of it.
//!
//! # Invariants
//!
//! * No tensors, files, threads or clock: ids, numbers and byte slices only.
//! * Randomness comes from `(seed, epoch, id)` alone, so that a sample's place depends neither on the batch
//!   that it falls into nor on the worker that loads it, and a resumed run sees what an uninterrupted one sees.
//! * The order of an epoch does not depend on how many samples are drawn at a time: a policy may change the batch size
//!   at any step without repeating or losing a sample.
//! * No batch is larger than its rule allows, and a plan has every sample once per epoch, or says which it left out.
//! * Batches are shuffled within their window only, and a position needs no more than one window to be planned again:
//!   a few numbers, the ids of the partial batches that the window before left over (256 at most, or what each task has
//!   beyond a multiple), and, once the rule has changed, a number for each kind of sample or a bit for each sample of a
//!   small window.
//!   That is 4 kB of JSON at most with the default window on one axis, after any number of changes: 3.8 kB among ten
//!   million samples, and 1.1 kB with a lattice.
//!   A window that was asked to be larger, and several axes without a lattice, take up to a bit a sample; tasks with shares
//!   take some ten bytes each, so that a hundred of them may take more.
//! * Samples that are padded alike go in the order of their queue, whatever rules divide them into batches, so that what
//!   was taken is the same for all rules: no change loses a sample or repeats one.
//! * Which packed rows there are depends on no rule, so that a change of the rule changes none; a position between two of
//!   them takes less than 4 kB of JSON among ten million samples.
//! * A position of a stream holds which samples are in which batch or row, so that a stream that was interrupted goes on with
//!   the same ones once its samples are read again: of ten million samples, 1 024 are 3.8 kB of JSON at most in batches of two
//!   and more that are padded to a few edges.
//!   Where each batch has a cell of its own, it takes some three bytes more.
//! * A position of another version is refused by it, and one of other lengths, another configuration or another rule by its
//!   fingerprints; what samples a stream has, and which rule it follows, is not known to its position.
//! * Where shares are wanted, a window ends where a task runs out of samples, so that the shares hold in every stretch of
//!   the epoch, also when one window would hold all of it; draws are off them by less than a sample from the start.
//!   Steps, whose batches are ordered for it, were off by less than two of the largest batches in any 20 of them, in each of
//!   12 000 random mixtures with the default weight of diversity: measured, not proved.
//! * A sample's id is a `u64` wherever one is handed out: by steps, streams, cursors and iterators.
//!   In the tables over an index, [`Batches`] and [`PackedRows`], it is the sample's place there, in 32 bits, which halves
//!   what a plan of ten million samples reads and holds; an index refuses to have more.
//! * A [`MixedBuffer`] never grows: the host memory of a run is known when it starts.
//!
//! # Example
//!
//! Chats of 8 to 4 096 tokens, at most 32 768 padded tokens at a time:
//!
//! ```
//! use plimsoll_sampler::{BatchPlanner, PaddedBudget, PlanConfig, SampleIndex, mates_kept};
//!
//! let lengths: Vec<u32> = (0..100_000u32).map(|id| 8 + id * 7919 % 4089).collect();
//! let index = SampleIndex::try_new([lengths])?;
//! let planner = BatchPlanner::try_new(index, PaddedBudget([32_768]), PlanConfig { seed: 7, ..PlanConfig::default() })?;
//!
//! let mut epoch = planner.epoch(0);
//! let first = epoch.next_batch().expect("there are samples");
//! assert!(first.ids.len() as u64 * u64::from(first.longest[0]) <= 32_768);
//! // A checkpoint keeps the position, from which an equal planner goes on.
//! let resumed = planner.resume(&epoch.position())?;
//! assert_eq!(resumed, epoch);
//!
//! let (here, next) = (planner.plan_epoch(0), planner.plan_epoch(1));
//! assert!(planner.report(0, &here).waste[0] < 0.04 && mates_kept(&here, &next) < 0.04);
//! # Ok::<(), plimsoll_sampler::SamplerError>(())
//! ```
//!
//! # Sources
//!
//! * Feistel networks over a product of two ranges, and cycle walking: Black and Rogaway, "Ciphers with Arbitrary
//!   Finite Domains", CT-RSA 2002.
//! * The mixing function: the `SplitMix64` finaliser (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number
//!   Generators", OOPSLA 2014, with Stafford's constants, variant 13).

mod block_permutation;
mod collate;
mod dealer;
mod edges;
mod epoch;
mod error;
mod hash;
mod pack;
mod permutation;
mod plan;
mod speeds;

pub use collate::{IGNORED_LABEL, MixedBatch, MixedBuffer, MixedConfig, MixedImage, MixedSample, MixedShape};
pub use dealer::{BatchToDeal, deal_batches};
pub use edges::{Edges, cells, edges};
pub use epoch::EpochCursor;
pub use error::{
    CollateError, DealError, EdgesError, IndexError, PackError, PlanError, PositionError, SamplerError, StreamError,
};
pub use pack::{
    PackBudget, PackConfig, PackLoad, PackPlanner, PackPosition, PackReport, PackRule, PackStepPosition, PackSteps,
    PackStream, PackStreamPosition, PackStreamStepPosition, PackStreamSteps, PackedEpoch, PackedRows, PackedStep,
    Piece, Split,
};
pub use permutation::Permutation;
pub use plan::{
    Admit, AdmitCounts, Admitted, Batch, BatchPlanner, Batches, Bucketed, CapacityRule, EpochEnd, EpochPlan, GroupRule,
    GroupSteps, Groups, Lattice, MixCursor, MixDraw, MixPosition, MixedStream, Mixing, Objective, Oversize, OwnedBatch,
    PaddedBudget, Pending, PlanConfig, PlanPosition, PlanReport, PlannedStep, Pushed, SampleIndex, SourceEnd,
    StepBatch, StepPlanner, StepPosition, StepSize, StreamBatch, StreamLimits, StreamMix, StreamPlanner,
    StreamPosition, StreamSample, StreamStats, StreamStepPosition, StreamSteps, TaskMix, TaskPlan, bucketed,
    mates_kept, mixed_stream, rank_correlation, task_entropy_ratio, temperature_shares,
};
/// What sizes and shares are given in.
pub use plimsoll_types::{Bytes, Fraction};
pub use speeds::{Speeds, Worked};
