//! Which samples come next.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_monitor::MatesKept;
use plimsoll_sampler::{EpochCursor, Groups, StreamStats};
use plimsoll_types::{Bytes, Extent};
use serde::{Deserialize, Serialize};

use super::packed::{Packed, PackedPosition};
use super::padded::{PaddedSteps, PlannedDraw, padded_steps};
use super::position::{LoaderPosition, OneKind as _};
use super::stream::{StreamedStep, StreamedSteps};
use super::streamed::streamed_steps;
use super::{LoaderConfig, LoaderError};
use crate::index::Index;
use crate::source::{Draw, Lengths, Source};
use crate::too_large::TooLarge;

/// The most samples of which two epochs are planned to see how they mix: a million take some 0.1 s of a core, on one axis or
/// two.
const MOST_MIXED: usize = 1 << 20;

/// What the policy wants of the next step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// Samples that are all cut to one edge.
    Edge(u32),
    /// Samples that are padded to cells, with no more in a micro-batch than this, for each cell.
    Batches(Vec<u32>),
}

/// An endless sequence of steps.
pub(super) enum Order<S: Source> {
    Cut { cursor: EpochCursor, edge: u32, n_samples: u64 },
    Padded { steps: Box<dyn PaddedSteps>, index: Index, config: Box<LoaderConfig>, wanted: Vec<u32> },
    Streamed(Box<dyn StreamedSteps<S::Item>>),
    Packed(Box<Packed>),
}

impl<S: Source> Order<S> {
    /// Begins at the start, or at a position, where an earlier part of the run has left off.
    pub(super) fn try_new(
        source: &Arc<S>,
        config: &LoaderConfig,
        wanted: &Wanted,
        position: Option<LoaderPosition>,
    ) -> Result<Self, LoaderError> {
        let lengths = source.lengths();
        config.check(&lengths)?;
        match (lengths, wanted) {
            (Lengths::Cut, Wanted::Edge(edge)) => {
                let cursor = match position {
                    None => EpochCursor::try_new(source.n_samples(), config.seed)?,
                    Some(position) => EpochCursor::of(position)?,
                };
                Ok(Self::Cut { cursor, edge: *edge, n_samples: config.effective_batch_size.into() })
            }
            (Lengths::Known(index), Wanted::Batches(sizes)) => Self::padded((index, None), config, sizes, position),
            (Lengths::Grouped(groups), Wanted::Batches(sizes)) => {
                Self::padded((groups.index().clone().into(), Some(&groups)), config, sizes, position)
            }
            (Lengths::Streamed { longest }, Wanted::Batches(sizes)) => {
                check_axes(longest.n_axes(), config)?;
                Ok(Self::Streamed(streamed_steps(source, longest, config, sizes, position)?))
            }
            (Lengths::Packed { index, row_len }, Wanted::Batches(sizes)) => {
                let position = position.map(PackedPosition::of).transpose()?;
                Ok(Self::Packed(Box::new(Packed::try_new((index, row_len), config, sizes, position)?)))
            }
            _ => Err(LoaderError::OtherSamples),
        }
    }

    fn padded(
        (index, groups): (Index, Option<&Groups>),
        config: &LoaderConfig,
        sizes: &[u32],
        position: Option<LoaderPosition>,
    ) -> Result<Self, LoaderError> {
        let (position, wanted) = match position {
            None => (None, sizes.to_vec()),
            Some(LoaderPosition::Padded { position, wanted }) => (Some(position), wanted),
            Some(_) => return Err(LoaderError::OtherPosition),
        };
        check_axes(index.n_axes(), config)?;
        let mut steps = padded_steps((&index, groups), config, &wanted)?;
        if let Some(position) = position {
            steps.go_back(config, &wanted, &position)?;
        }
        Ok(Self::Padded { steps, index, config: Box::new(config.clone()), wanted })
    }

    /// Returns the next step, with its samples where they were read already.
    pub(super) fn next(&mut self) -> Result<NextStep<S::Item>, LoaderError> {
        Ok(match self {
            Self::Cut { cursor, edge, n_samples } => {
                let (epoch, ids) = cursor.take(*n_samples);
                let (span, ends_epoch) = (0..ids.len() as u64, cursor.epoch != epoch);
                NextStep::unread(PlannedDraw { draw: Draw::of_extent(epoch, ids, *edge), span, ends_epoch })
            }
            Self::Padded { steps, .. } => NextStep::unread(steps.next()),
            Self::Packed(packed) => NextStep::unread(packed.next()?),
            Self::Streamed(stream) => {
                let StreamedStep { planned, items, skipped } = stream.next()?;
                NextStep { planned, items: Some(items), skipped }
            }
        })
    }

    /// Returns where the next step begins.
    pub(super) fn position(&self) -> LoaderPosition {
        match self {
            Self::Cut { cursor, .. } => LoaderPosition::Cut(cursor.clone()),
            Self::Padded { steps, wanted, .. } => {
                LoaderPosition::Padded { position: steps.position(), wanted: wanted.clone() }
            }
            Self::Streamed(stream) => stream.position(),
            Self::Packed(packed) => LoaderPosition::Packed(packed.position()),
        }
    }

    /// Follows other sizes from the step on that begins where the last delivered one ended: what was taken ahead of need
    /// comes again, so that the steps do not depend on how much that was.
    ///
    /// Steps of a stream that were taken ahead are used as they are.
    pub(super) fn change(&mut self, to: &Wanted, delivered: &LoaderPosition) -> Result<(), LoaderError> {
        match (self, to, delivered) {
            (Self::Cut { cursor, edge, .. }, Wanted::Edge(to), LoaderPosition::Cut(position)) => {
                (*edge, *cursor) = (*to, position.clone());
                Ok(())
            }
            (
                Self::Padded { steps, config, wanted, .. },
                Wanted::Batches(sizes),
                LoaderPosition::Padded { position, wanted: was },
            ) => {
                steps.go_back(config, was, position)?;
                steps.change(config, sizes)?;
                wanted.clone_from(sizes);
                Ok(())
            }
            (Self::Streamed(stream), Wanted::Batches(sizes), _) => stream.change(sizes),
            (Self::Packed(packed), Wanted::Batches(sizes), LoaderPosition::Packed(position)) => {
                packed.go_back(position)?;
                packed.change(sizes);
                Ok(())
            }
            _ => Err(LoaderError::OtherSamples),
        }
    }

    /// Begins again where the last delivered step ended, without another change; steps of a stream that were taken ahead
    /// are used as they are.
    pub(super) fn go_back(&mut self, delivered: &LoaderPosition) -> Result<(), LoaderError> {
        match (self, delivered) {
            (Self::Cut { cursor, .. }, LoaderPosition::Cut(position)) => cursor.clone_from(position),
            (Self::Padded { steps, config, .. }, LoaderPosition::Padded { position, wanted }) => {
                steps.go_back(config, wanted, position)?;
            }
            (Self::Packed(packed), LoaderPosition::Packed(position)) => packed.go_back(position)?,
            (Self::Streamed(_), _) => (),
            _ => return Err(LoaderError::OtherPosition),
        }
        Ok(())
    }

    /// Lets a stream hold no sample from here on that is too large.
    pub(super) fn leave_out_too_large(&mut self, too_large: &TooLarge) {
        if let Self::Streamed(stream) = self {
            stream.leave_out_too_large(too_large.clone());
        }
    }

    /// Returns the lengths of a sample that are known before it is read.
    pub(super) fn extent(&self, id: u64) -> Option<Extent> {
        match self {
            Self::Padded { index, .. } => index.get(id),
            Self::Packed(packed) => packed.index().get(id).map(|[length]| Extent::new(length)),
            Self::Cut { .. } | Self::Streamed(_) => None,
        }
    }

    /// Whether the next steps are as they are wanted.
    pub(super) fn is(&self, to: &Wanted) -> bool {
        match (self, to) {
            (Self::Cut { edge, .. }, Wanted::Edge(to)) => edge == to,
            (Self::Padded { wanted, .. }, Wanted::Batches(sizes)) => wanted == sizes,
            (Self::Streamed(stream), Wanted::Batches(sizes)) => stream.wanted() == sizes,
            (Self::Packed(packed), Wanted::Batches(sizes)) => packed.wanted() == sizes,
            _ => false,
        }
    }

    /// Whether steps that were taken ahead of need can be taken again.
    pub(super) fn takes_back(&self) -> bool {
        !matches!(self, Self::Streamed(_))
    }

    /// Returns how the look-ahead buffer of a stream did.
    pub(super) fn stream_stats(&self) -> Option<StreamStats> {
        if let Self::Streamed(stream) = self { Some(stream.stats()) } else { None }
    }

    /// Returns how many samples the look-ahead buffer of a stream holds, their bytes, and which part of its room they fill.
    pub(super) fn buffered(&self) -> Option<(u64, Bytes, f64)> {
        if let Self::Streamed(stream) = self { Some(stream.buffered()) } else { None }
    }

    /// Measures how well an epoch of padded or packed samples mixes with the next, where that is done at once.
    pub(super) fn mates_kept(&self) -> Option<MatesKept> {
        match self {
            Self::Padded { steps, index, .. } if index.n_samples() <= MOST_MIXED => {
                let mixing = steps.mixing();
                Some(MatesKept { kept: mixing.kept, reachable: Some(mixing.reachable.get()) })
            }
            Self::Packed(packed) if packed.index().n_samples() <= MOST_MIXED => {
                Some(MatesKept { kept: packed.report().mates_kept, reachable: None })
            }
            _ => None,
        }
    }

    /// Returns how long this has waited for samples of a stream to be read.
    pub(super) fn waited(&self) -> Duration {
        if let Self::Streamed(stream) = self { stream.waited() } else { Duration::ZERO }
    }
}

/// Refuses samples of another number of axes than the cells have.
fn check_axes(n_axes: usize, config: &LoaderConfig) -> Result<(), LoaderError> {
    let of_cells = config.cells.n_axes();
    if n_axes == of_cells { Ok(()) } else { Err(LoaderError::OtherAxes { n_axes, of_cells }) }
}

/// A step, and what is known of its samples.
pub(super) struct NextStep<T> {
    pub(super) planned: PlannedDraw,
    pub(super) items: Option<Vec<T>>,
    pub(super) skipped: Vec<u64>,
}

impl<T> NextStep<T> {
    fn unread(planned: PlannedDraw) -> Self {
        Self { planned, items: None, skipped: Vec::new() }
    }
}
