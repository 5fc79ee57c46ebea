//! Where a data loader stands.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::data::Start;
use super::position::Position;

/// Where a loader stands.
pub(super) struct Place {
    /// Where the next iterator begins.
    pub(super) next: Start,
    /// Where the next batch begins.
    pub(super) position: Position,
}

impl Place {
    pub(super) fn at(next: Start) -> Mutex<Self> {
        Mutex::new(Self { position: next.position.clone(), next })
    }

    pub(super) fn go_to(&mut self, next: Start) {
        *self = Self { position: next.position.clone(), next };
    }
}

pub(super) fn lock(place: &Mutex<Place>) -> MutexGuard<'_, Place> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}
