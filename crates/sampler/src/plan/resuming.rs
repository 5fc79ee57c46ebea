//! What a stream holds again after it was interrupted.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_types::Bytes;

use super::streamed::StreamSample;
use crate::StreamError;

/// A position, and the samples of it that have come back.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Resuming<P, const AXES: usize> {
    pub(crate) position: P,
    pub(crate) missing: BTreeSet<u64>,
    pub(crate) held: BTreeMap<u64, StreamSample<AXES>>,
    /// Memory of those that are held.
    bytes: Bytes,
}

impl<P, const AXES: usize> Resuming<P, AXES> {
    pub(crate) fn new(position: P, ids: impl IntoIterator<Item = u64>) -> Self {
        Self { position, missing: ids.into_iter().collect(), held: BTreeMap::new(), bytes: Bytes::ZERO }
    }

    pub(crate) fn push(&mut self, sample: StreamSample<AXES>) -> Result<(), StreamError> {
        let id = sample.id;
        if !self.missing.remove(&id) {
            return Err(StreamError::NotPending { id, n_missing: self.missing.len() as u64 });
        }
        self.held.insert(id, sample);
        self.bytes = self.bytes.saturating_add(sample.bytes);
        Ok(())
    }

    /// Whether a sample is held, or may still come.
    pub(crate) fn may_have(&self, id: u64) -> bool {
        self.held.contains_key(&id) || self.missing.contains(&id)
    }

    /// Samples that are held, and their memory.
    pub(crate) fn n_held(&self) -> (usize, Bytes) {
        (self.held.len(), self.bytes)
    }
}
