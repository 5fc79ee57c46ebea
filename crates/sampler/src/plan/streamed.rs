//! What goes into a stream's buffer, and what comes out.

use plimsoll_types::Bytes;
use serde::{Deserialize, Serialize};

use super::batches::Batch;
use super::step_queue::Waiting;

/// How much of a stream is held at most, in batches that wait for a step or not planned yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Samples; at least 2.
    pub samples: usize,
    /// Host memory of the samples.
    pub bytes: Bytes,
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
    /// Samples that do not fit even alone and have to be cut.
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
    pub(super) samples: Vec<StreamSample<AXES>>,
    pub(super) longest: [u32; AXES],
    pub(super) cell: [u32; AXES],
}

impl<const AXES: usize> Planned<AXES> {
    /// A batch whose ids are places among the samples that waited.
    pub(super) fn new(waiting: &[StreamSample<AXES>], batch: Batch<'_, AXES>) -> Self {
        let Batch { ids, longest, cell } = batch;
        Self { samples: ids.iter().map(|place| waiting[*place as usize]).collect(), longest, cell }
    }

    pub(super) fn bytes(&self) -> Bytes {
        self.samples.iter().map(|sample| sample.bytes).sum()
    }

    pub(super) fn into_batch(self) -> StreamBatch<AXES> {
        StreamBatch {
            bytes: self.bytes(),
            ids: self.samples.iter().map(|sample| sample.id).collect(),
            longest: self.longest,
            cell: self.cell,
        }
    }
}

impl Waiting for StreamSample<1> {
    fn id(&self) -> u64 {
        self.id
    }

    fn length(&self) -> u32 {
        self.lengths[0]
    }
}
