//! Steps of a stream, along however many axes.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_sampler::StreamStats;
use plimsoll_types::{Bytes, Extent};

use super::position::{LoaderPosition, OneKind, StreamedPosition};
use super::stream::{Stream, StreamedStep};
use super::{LoaderConfig, LoaderError};
use crate::source::Source;
use crate::too_large::TooLarge;

/// An endless sequence of steps of a stream, whatever the axes of its samples.
pub(super) trait StreamedSteps<T>: Send {
    /// Returns the next step with its samples.
    fn next(&mut self) -> Result<StreamedStep<T>, LoaderError>;

    /// Returns where the next step begins.
    fn position(&self) -> LoaderPosition;

    /// Returns the sizes that the steps are made for.
    fn wanted(&self) -> &[u32];

    /// Follows other sizes from the next step on.
    fn change(&mut self, sizes: &[u32]) -> Result<(), LoaderError>;

    /// Leaves samples out from here on that are too large, and reads none of which that is known.
    fn leave_out_too_large(&mut self, too_large: TooLarge);

    /// Says what happened so far: empty is a step that had to wait for a sample, full a sample that had to wait for a step.
    fn stats(&self) -> StreamStats;

    /// Returns how many samples the look-ahead buffer holds, their bytes, and which part of its room they fill.
    fn buffered(&self) -> (u64, Bytes, f64);

    /// Returns how long steps have waited for samples to be read.
    fn waited(&self) -> Duration;
}

impl<S: Source, const AXES: usize> StreamedSteps<S::Item> for Stream<S, AXES>
where
    StreamedPosition<AXES>: OneKind,
{
    fn next(&mut self) -> Result<StreamedStep<S::Item>, LoaderError> {
        Self::next(self)
    }

    fn position(&self) -> LoaderPosition {
        Self::position(self).into()
    }

    fn wanted(&self) -> &[u32] {
        Self::wanted(self)
    }

    fn change(&mut self, sizes: &[u32]) -> Result<(), LoaderError> {
        Self::change(self, sizes)
    }

    fn leave_out_too_large(&mut self, too_large: TooLarge) {
        Self::leave_out_too_large(self, too_large);
    }

    fn stats(&self) -> StreamStats {
        Self::stats(self)
    }

    fn buffered(&self) -> (u64, Bytes, f64) {
        Self::buffered(self)
    }

    fn waited(&self) -> Duration {
        Self::waited(self)
    }
}

/// Stands before the first step of a stream whose samples are no longer than this, in batches of these sizes, or at a position.
pub(super) fn streamed_steps<S: Source>(
    source: &Arc<S>,
    longest: Extent,
    config: &LoaderConfig,
    sizes: &[u32],
    position: Option<LoaderPosition>,
) -> Result<Box<dyn StreamedSteps<S::Item>>, LoaderError> {
    match longest.n_axes() {
        1 => steps::<S, 1>(source, config, sizes, position),
        2 => steps::<S, 2>(source, config, sizes, position),
        _ => steps::<S, 3>(source, config, sizes, position),
    }
}

fn steps<S: Source, const AXES: usize>(
    source: &Arc<S>,
    config: &LoaderConfig,
    sizes: &[u32],
    position: Option<LoaderPosition>,
) -> Result<Box<dyn StreamedSteps<S::Item>>, LoaderError>
where
    StreamedPosition<AXES>: OneKind,
{
    let position = position.map(StreamedPosition::of).transpose()?;
    Ok(Box::new(Stream::<S, AXES>::try_new(source, config, sizes, position)?))
}
