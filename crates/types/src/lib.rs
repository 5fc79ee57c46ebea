//! What are we talking about?
//!
//! The values that every Plimsoll crate speaks: sizes in bytes, the shape of a batch, a memory reading,
//! a prediction, the knobs of a step, and the closed sets of events and decisions that make up a run's log.
//!
//! # Invariants
//!
//! * No IO, no clock, no device, and no dependency but serde and thiserror: a value here can be logged,
//!   compared and replayed anywhere.
//! * Nothing converts silently between bytes and numbers, or between fractions and percentages.
//! * [`Event`] and [`Decision`] are closed: whoever adds a variant raises [`SCHEMA_VERSION`].
//!
//! # Example
//!
//! ```
//! use plimsoll_types::{Bytes, Fraction, StepShape};
//!
//! let capacity: Bytes = "1.5 GiB".parse()?;
//! let budget = capacity.scale(Fraction::try_new(0.9)?);
//! assert_eq!(budget.to_string(), "1.35 GiB");
//! assert!(StepShape::new(4, 32).covers(StepShape::new(3, 32)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bytes;
mod cells;
mod decision;
mod division;
pub mod edge_or_edges;
mod event;
mod failed;
mod features;
mod fraction;
mod knobs;
mod memory;
mod named_source;
mod number;
mod phase;
mod recompute;
mod shape;
mod supply;
mod validated;

pub use bytes::{Bytes, ParseBytesError};
pub use cells::Cells;
pub use decision::{BrakeReason, Change, Decision, KeepReason, MoveReason, Resize};
pub use division::{part_size, share_of_replica};
pub use event::{
    BoundExceeded, Budget, BudgetChanged, CheckpointSaved, Decided, EndReason, EpochDone, Event, GradientCheckpointing,
    MicroBatch, OLDEST_SCHEMA_VERSION, RunEnded, RunStarted, SCHEMA_VERSION, StepDone, TaskStep,
};
pub use failed::{Attempt, Stage, StepFailed};
pub use features::{Features, FeaturesError, MAX_EXPONENT, MAX_FEATURES};
pub use fraction::{Fraction, FractionOutOfRange};
pub use knobs::{Knobs, Ladder, LadderError};
pub use memory::{MemoryReading, Observation, Prediction, SMALLEST_PAGE};
pub use named_source::NamedSource;
pub use number::{is_zero, null_as_nan};
pub use phase::Phase;
pub use recompute::Recompute;
pub use shape::{Extent, ExtentError, MAX_AXES, StepShape};
pub use supply::SupplyStep;
pub use validated::{Goal, ItemsMeasured, NamedMetric, Validated};

/// The example of the README, which is tested with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
