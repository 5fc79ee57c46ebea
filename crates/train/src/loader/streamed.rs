//! Steps of a stream, along however many axes.

use std::sync::Arc;

use plimsoll_types::Extent;

use super::position::{LoaderPosition, OneKind, StreamedPosition};
use super::stream::{Stream, StreamedSteps};
use super::{LoaderConfig, LoaderError};
use crate::source::Source;

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
