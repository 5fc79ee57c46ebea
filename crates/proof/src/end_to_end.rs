//! How fast does a whole run go, with batches planned or drawn at random?
//!
//! Here is what needs no Burn: how each [`Method`] divides samples into batches, the one [`Rule`] that all keep, and how
//! the figures are written.
//! The binary `proof` (feature `devices`) runs the steps.
//!
//! # What is compared
//!
//! One model, one data set, one capacity and one effective batch size, in one process:
//!
//! * [`Method::Plimsoll`]: the steps of a run, each in at least four batches, which are padded to one of a few edges, or have
//!   packed rows where a run packs unless told otherwise;
//! * [`Method::Fixed`]: samples in random order, always as many as are safe if all are as long as the longest of the
//!   data, padded to the longest of their batch;
//! * [`Method::Random`]: samples in random order, as many as the rule allows at the longest of their batch, padded to
//!   that;
//! * [`Method::Bucketed`]: thirty buckets of lengths with as many positions each, batches of one bucket with as many
//!   positions, padding included, as the rule allows at every length, in random order and padded to their longest: what
//!   lhotse's `DynamicBucketingSampler` does with its one `max_duration`;
//! * [`Method::Sorted`]: fifty batches at a time of as many samples as are safe if all are as long as the longest, sorted
//!   by length: what `group_by_length` of Hugging Face's trainer does.
//!
//! All run every sample of an epoch through the same guarded step: forward and backward passes, weighted accumulation,
//! the optimizer's step.
//! The learning rate is zero, so that every method runs the same model.
//! A thread reads and collates ahead of need, as in a run.
//! The methods take turns: an epoch of each is divided into [`N_ROUNDS`] rounds of as many steps.
//! A round has other samples for each method, and an epoch the same: rates are those of whole epochs.
//!
//! * `units_per_second`: tokens or frames that are no padding, per second of wall time, the median over the epochs;
//! * `ratio`: Plimsoll's over the method's; 1 for Plimsoll;
//! * `units_per_cpu_second`, `cpu_ratio`: the same by processor time, which other programs disturb less;
//! * `padding`: 1 − Σ length / Σ (batch size × padded length), the edges' share included;
//! * `oom`: attempts whose measured peak was above the capacity.
//!
//! Then a [`WholeRun`]: `plimsoll train` with nothing set but the data, through its own loader and policy, against a loop as
//! Burn's users write it, on the same samples in steps of as many, at the fixed batch that suits it best.

mod batch;
mod division;
mod planned;
mod report;
mod rule;
mod whole;

pub use self::batch::Batch;
pub use self::division::{Division, Method, N_ROUNDS, Turn};
pub use self::report::{Measured, Ran, Report, Row};
pub use self::rule::{Certified, Learning, Rule, certify};
pub use self::whole::{OwnLoop, WholeRun};
