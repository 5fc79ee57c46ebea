//! What goes into a stream's buffer, and what comes out.

use plimsoll_types::Bytes;
use serde::{Deserialize, Serialize};

use super::batches::longest;
use super::step::StepSize;
use super::step_queue::Waiting;
use crate::hash::{Use, hash};
use crate::{PlanError, StreamError};

/// How much of a stream is held at most, in batches that wait for a step or not planned yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Samples; at least 2.
    pub samples: usize,
    /// Host memory of the samples.
    pub bytes: Bytes,
}

impl StreamLimits {
    pub(crate) const fn check(self) -> Result<(), PlanError> {
        if self.samples < 2 || self.bytes.0 < 2 {
            return Err(PlanError::BelowOne { key: "half of the stream's buffer" });
        }
        Ok(())
    }

    /// Refuses a sample for which half of the buffer has no room.
    pub(crate) fn check_sample(self, id: u64, bytes: Bytes) -> Result<(), StreamError> {
        let limit = Bytes(self.bytes.0 / 2);
        if bytes > limit { Err(StreamError::BufferedSample { id, bytes, limit }) } else { Ok(()) }
    }
}

/// A sample that came out of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamSample<const AXES: usize> {
    /// A name for it, which the batch gives back.
    pub id: u64,
    /// Its length on each axis.
    pub lengths: [u32; AXES],
    /// Its task, 0 where there is one only.
    pub task: u16,
    /// Its size in host memory.
    pub bytes: Bytes,
}

/// A batch of a stream; as [`crate::Batch`], with ids of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamBatch<const AXES: usize> {
    /// The samples, in the order in which they are laid into the batch.
    pub ids: Vec<u64>,
    /// The length of the longest sample on each axis.
    pub longest: [u32; AXES],
    /// What every sample is padded to.
    pub cell: [u32; AXES],
    /// Host memory of the samples.
    pub bytes: Bytes,
}

/// What became of a sample that was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It is held.
    Held,
    /// It does not fit even alone, and is left out.
    Skipped,
    /// There is no room: take a batch, which is ready, and push it again.
    Full,
}

/// What happened on a stream so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamStats {
    /// Samples that were held.
    pub samples: u64,
    /// Batches that were taken.
    pub batches: u64,
    /// Samples that do not fit even alone and are left out.
    pub skipped: u64,
    /// Samples of these batches that do not fit even alone and have to be cut.
    pub truncated: u64,
    /// Samples that did not fill a batch at the end of an epoch and are left out.
    #[serde(default)]
    pub dropped: u64,
    /// How often a sample found no room: the steps are slower than the stream.
    pub times_full: u64,
    /// How often no batch was ready before the stream ended: the stream is slower than the steps.
    pub times_empty: u64,
    /// The most samples held at a time.
    pub most_samples: u64,
    /// The most host memory held at a time.
    pub most_bytes: Bytes,
}

/// A batch that is planned and not taken.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Planned<const AXES: usize> {
    /// With the lengths that they came with.
    pub(super) samples: Vec<StreamSample<AXES>>,
    pub(super) cell: [u32; AXES],
}

impl<const AXES: usize> Planned<AXES> {
    /// Lays samples into a batch in an order that depends on nothing but what they are.
    pub(super) fn new(mut samples: Vec<StreamSample<AXES>>, cell: [u32; AXES], seed: u64) -> Self {
        samples.sort_by_cached_key(|sample| sample.key(seed, 0));
        Self { samples, cell }
    }

    pub(super) fn bytes(&self) -> Bytes {
        self.samples.iter().map(|sample| sample.bytes).sum()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = u64> {
        self.samples.iter().map(|sample| sample.id)
    }

    /// How many samples have to be cut.
    pub(super) fn n_truncated(&self) -> u64 {
        self.samples.iter().filter(|sample| sample.lengths != self.planned(sample)).count() as u64
    }

    pub(super) fn into_batch(self) -> StreamBatch<AXES> {
        StreamBatch {
            bytes: self.bytes(),
            ids: self.ids().collect(),
            longest: longest(self.samples.iter().map(|sample| self.planned(sample))),
            cell: self.cell,
        }
    }

    /// The lengths that a sample has in the batch: one that does not fit even alone is cut to the cell.
    fn planned(&self, sample: &StreamSample<AXES>) -> [u32; AXES] {
        std::array::from_fn(|axis| sample.lengths[axis].min(self.cell[axis]))
    }
}

impl<const AXES: usize> StreamSample<AXES> {
    /// A random place among others, which depends on nothing but the sample and these numbers.
    pub(super) fn key(&self, seed: u64, round: u64) -> impl Ord + use<AXES> {
        let Self { id, lengths, task, bytes } = *self;
        (hash(Use::Stream, seed, round, id), id, lengths, task, bytes)
    }
}

impl<const AXES: usize> Waiting<AXES> for StreamSample<AXES> {
    fn id(&self) -> u64 {
        self.id
    }

    fn weight(&self, size: StepSize, cell: [u32; AXES]) -> u64 {
        size.weight(self.lengths, cell)
    }
}
