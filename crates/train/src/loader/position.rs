//! Where the samples of a step begin.

use plimsoll_sampler::{EpochCursor, StepPosition, StreamStepPosition};
use serde::{Deserialize, Serialize};

use super::LoaderError;
use super::cursor::CursorPosition;
use super::packed::PackedPosition;

/// Where the samples of a step begin: what a checkpoint needs to go on from there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoaderPosition {
    /// Among samples that are cut.
    Cut(EpochCursor),
    /// Among samples that are padded.
    Padded {
        /// In the plan.
        position: StepPosition,
        /// What the plan was made for.
        wanted: Vec<u32>,
    },
    /// In a stream.
    Streamed(StreamedPosition<1>),
    /// In a stream of samples with two lengths.
    StreamedTwo(StreamedPosition<2>),
    /// In a stream of samples with three lengths.
    StreamedThree(StreamedPosition<3>),
    /// Among samples that are packed.
    Packed(PackedPosition),
}

/// Where the next step of a stream begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamedPosition<const AXES: usize> {
    /// In the steps.
    pub steps: StreamStepPosition<AXES>,
    /// The next sample that is read, after those that are pending.
    pub next: CursorPosition,
    /// What the steps were made for.
    pub wanted: Vec<u32>,
}

/// A position of one kind, as any of them and back.
pub(super) trait OneKind: Into<LoaderPosition> {
    /// Returns a position of this kind.
    ///
    /// # Errors
    ///
    /// [`LoaderError::OtherPosition`] for one of another kind.
    fn of(position: LoaderPosition) -> Result<Self, LoaderError>;
}

macro_rules! one_kind {
    ($($kind:ty: $name:ident),+) => {$(
        impl From<$kind> for LoaderPosition {
            fn from(position: $kind) -> Self {
                Self::$name(position)
            }
        }

        impl OneKind for $kind {
            fn of(position: LoaderPosition) -> Result<Self, LoaderError> {
                match position {
                    LoaderPosition::$name(position) => Ok(position),
                    _ => Err(LoaderError::OtherPosition),
                }
            }
        }
    )+};
}

one_kind!(
    EpochCursor: Cut,
    StreamedPosition<1>: Streamed,
    StreamedPosition<2>: StreamedTwo,
    StreamedPosition<3>: StreamedThree,
    PackedPosition: Packed
);
