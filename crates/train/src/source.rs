//! Where samples come from.

use plimsoll_sampler::SampleIndex;
/// Samples that get one edge.
pub use plimsoll_sampler::StepBatch as Part;
use plimsoll_step::StepPart;
use plimsoll_types::{Bytes, StepShape};

/// Where samples come from: host memory in, host memory out, from several threads at once.
///
/// The workers read the samples of a step, each one at a time, and the one that reads the last of them collates all into a
/// buffer that is used again and again.
pub trait Source: Send + Sync + 'static {
    /// A sample that was read and decoded.
    type Item: Item;
    /// A reusable host buffer for the samples of one optimizer step.
    type Buffer: Send + Sync + 'static;

    /// Returns how many samples an epoch has.
    fn n_samples(&self) -> u64;

    /// Says what is known of the samples' lengths before they are read.
    fn lengths(&self) -> Lengths {
        Lengths::Cut
    }

    /// Returns the length that a sample of a stream had when somebody looked, if anybody has; it may be another by now.
    fn expected_length(&self, _id: u64) -> Option<u32> {
        None
    }

    /// Names a sample for people: the file that it lies in, or its place in one.
    fn describe(&self, id: u64) -> String {
        format!("sample {id}")
    }

    /// Returns what would make a sample that alone does not fit smaller.
    fn smaller(&self) -> &'static str {
        "a smaller patch"
    }

    /// Reads and decodes one sample as it is in an epoch.
    ///
    /// The content depends on nothing but the arguments and the source itself.
    ///
    /// # Errors
    ///
    /// [`SourceError`] when it cannot be read; it names the file.
    fn read(&self, epoch: u64, id: u64) -> Result<Self::Item, SourceError>;

    /// Returns how much a buffer for steps up to `largest` holds.
    fn buffer_bytes(&self, largest: StepShape) -> Bytes;

    /// Allocates a buffer for steps of up to `largest.positions()` padded positions; it never grows.
    fn buffer(&self, largest: StepShape) -> Self::Buffer;

    /// Fills `buffer` with the samples of a draw, cropped or padded to the edges of its parts, in its order.
    ///
    /// `items` are those of the draw, in the same order.
    ///
    /// # Errors
    ///
    /// [`SourceError`] when a sample cannot be read.
    fn collate(&self, draw: &Draw, items: &[Self::Item], buffer: &mut Self::Buffer) -> Result<(), SourceError>;
}

/// What is known of the samples' lengths before they are read.
#[derive(Clone, Debug, PartialEq)]
pub enum Lengths {
    /// Samples are cut to whatever edge is asked for.
    Cut,
    /// Each has its own length, and is padded.
    Known(SampleIndex<1>),
    /// Each has its own length, which shows when it is read, and is padded.
    Streamed {
        /// The greatest length that is read.
        longest: u32,
    },
}

/// One sample on the host.
pub trait Item: Send + 'static {
    /// Returns the length that is padded, from 1; 1 for a sample that is cut to the edge of its step.
    fn length(&self) -> u32 {
        1
    }

    /// Returns the host memory that it holds.
    fn bytes(&self) -> Bytes {
        Bytes::ZERO
    }

    /// Returns its task.
    fn task(&self) -> u16 {
        0
    }
}

/// For sources that read while they collate, since what they read depends on the edge.
impl Item for () {}

/// The samples of one optimizer step, and the edges that they get.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Draw {
    /// Epoch, from 0.
    pub epoch: u64,
    /// The samples, in order; no part is empty.
    pub parts: Vec<Part>,
}

impl Draw {
    /// Describes samples of an epoch that all get one edge.
    pub fn of_edge(epoch: u64, ids: Vec<u64>, edge: u32) -> Self {
        Self { epoch, parts: vec![Part { ids, edge }] }
    }

    /// Returns the ids of all samples, in order.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        self.parts.iter().flat_map(|part| part.ids.iter().copied())
    }

    /// Returns the id of the sample at a place in this order.
    pub(crate) fn id(&self, mut at: usize) -> Option<u64> {
        self.parts.iter().find_map(|part| {
            let id = part.ids.get(at).copied();
            at = at.saturating_sub(part.ids.len());
            id
        })
    }

    /// Removes samples, and the parts that have no more.
    pub(crate) fn leave_out(&mut self, ids: &[u64]) {
        if ids.is_empty() {
            return;
        }
        for part in &mut self.parts {
            part.ids.retain(|id| !ids.contains(id));
        }
        self.parts.retain(|part| !part.ids.is_empty());
    }

    /// Pads no sample to more than this.
    pub(crate) fn cut_edges(&mut self, longest: u32) {
        self.parts.iter_mut().for_each(|part| part.edge = part.edge.min(longest));
    }

    /// Returns the micro-batches: every part, divided where it has more samples than one may have.
    pub(crate) fn micro_batches(&self, most: u32) -> Vec<StepPart> {
        let mut start = 0;
        let divide = |part: &Part| {
            let samples = start..start + part.ids.len();
            start = samples.end;
            StepPart::divide(samples, part.edge, most)
        };
        self.parts.iter().flat_map(divide).collect()
    }

    /// Returns how many samples there are.
    pub fn n_samples(&self) -> usize {
        self.parts.iter().map(|part| part.ids.len()).sum()
    }
}

/// A sample that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("read sample {sample_id}: {reason}")]
pub struct SourceError {
    /// The sample.
    pub sample_id: u64,
    /// What happened, with the file's name.
    pub reason: String,
}
