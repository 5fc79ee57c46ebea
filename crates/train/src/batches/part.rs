//! What a data loader is over.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use super::place::{Place, lock};
use super::{Batches, BatchesError};

/// What a loader is over.
pub(super) enum Part<I, O> {
    /// Samples that make batches.
    All(Placed<I, O>),
    /// No samples.
    Nothing,
    /// Samples of which no batches can be made.
    Refused(Refusal),
}

/// Samples, and where whoever shares them stands.
pub(super) struct Placed<I, O> {
    pub(super) batches: Batches<I, O>,
    pub(super) place: Arc<Mutex<Place>>,
}

/// Why a slice makes no batches.
#[derive(Clone)]
pub(super) struct Refusal {
    range: Range<usize>,
    error: Arc<BatchesError>,
}

impl<I, O> Clone for Part<I, O> {
    fn clone(&self) -> Self {
        match self {
            Self::All(Placed { batches, place }) => {
                Self::All(Placed { batches: batches.clone(), place: Arc::clone(place) })
            }
            Self::Nothing => Self::Nothing,
            Self::Refused(refusal) => Self::Refused(refusal.clone()),
        }
    }
}

impl<I: Send + 'static, O: 'static> Placed<I, O> {
    /// Stands before this epoch.
    pub(super) fn at(batches: Batches<I, O>, epoch: usize) -> Self {
        let place = Arc::new(Place::at(batches.data.start(epoch, true)));
        Self { batches, place }
    }
}

impl<I: Send + 'static, O: 'static> Part<I, O> {
    pub(super) const fn placed(&self) -> Option<&Placed<I, O>> {
        if let Self::All(placed) = self { Some(placed) } else { None }
    }

    /// The samples from one place to another, or to the end, before the epoch that comes next here.
    pub(super) fn slice(&self, range: Range<usize>) -> Self {
        match self {
            Self::All(placed) => placed.slice(range),
            Self::Nothing => Self::Nothing,
            // Fewer samples make no batches either.
            Self::Refused(refusal) => match clipped(&range, refusal.n_samples()) {
                None => Self::Nothing,
                Some(_) => Self::Refused(refusal.clone()),
            },
        }
    }
}

impl<I: Send + 'static, O: 'static> Placed<I, O> {
    fn slice(&self, range: Range<usize>) -> Part<I, O> {
        let Some(range) = clipped(&range, self.batches.n_samples()) else { return Part::Nothing };
        match self.batches.slice(range.clone()) {
            Ok(batches) => Part::All(Self::at(batches, lock(&self.place).next.position.epoch())),
            Err(error) => Part::Refused(Refusal { range, error: Arc::new(error) }),
        }
    }
}

/// The part of a range that there is, if it is not empty.
fn clipped(range: &Range<usize>, n: usize) -> Option<Range<usize>> {
    let end = range.end.min(n);
    (range.start < end).then_some(range.start..end)
}

impl Refusal {
    pub(super) fn error(&self) -> BatchesError {
        let Range { start, end } = self.range;
        BatchesError::Slice { start, end, error: Arc::clone(&self.error) }
    }

    /// How many samples make no batches.
    pub(super) fn n_samples(&self) -> usize {
        self.range.len()
    }
}
