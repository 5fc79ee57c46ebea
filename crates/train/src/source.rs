//! Where samples come from.

use std::ops::Range;

use plimsoll_sampler::{Groups, SampleIndex, StepBatch};
use plimsoll_step::StepPart;
pub use plimsoll_types::NamedSource;
use plimsoll_types::{Bytes, Extent, StepShape};

use crate::index::{Index, extent};
use crate::too_large::TooLarge;

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

    /// Returns what the samples come from, such as corpora, in the order of their ids: those of the first source have the first
    /// ids, and so on; none where that makes no difference.
    ///
    /// A stream draws from them in the shares of its [`TaskMix`](plimsoll_sampler::TaskMix). Where lengths are known, shares
    /// are those of the tasks of the index.
    fn sources(&self) -> &[NamedSource] {
        &[]
    }

    /// Returns the lengths that a sample of a stream had when somebody looked, if anybody has; they may be others by now.
    fn expected_extent(&self, _id: u64) -> Option<Extent> {
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

    /// Returns what stands for a sample that another rank reads: an item of the same extent, counts and task, without content. None
    /// where that is not known before it is read, which is the default.
    ///
    /// Of several ranks each reads only the samples that it runs, and those that nothing stands for. All are read of a stream, whose
    /// steps are made of what was read, and where samples that cannot be read are left out, which all ranks have to know.
    fn stand_in(&self, _id: u64) -> Option<Self::Item> {
        None
    }

    /// Returns how much a buffer for steps up to `largest` holds.
    fn buffer_bytes(&self, largest: StepShape) -> Bytes;

    /// Allocates a buffer for steps of up to `largest.positions()` padded positions; it never grows.
    fn buffer(&self, largest: StepShape) -> Self::Buffer;

    /// Fills `buffer` with the samples of a draw, cropped or padded to the extents of its parts, in its order.
    ///
    /// `items` are those of the draw, in the same order; what [`Self::stand_in`] has returned has a place in the buffer, and no
    /// content that anybody asks for.
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
    /// Each has its own length, along one axis or several, and is padded.
    Known(Index),
    /// Each has its own length along one axis, and is padded; those of a group all come in one optimizer step.
    ///
    /// Steps have the size that was asked for on average, and exactly where groups divide it.
    Grouped(Groups),
    /// Each has its own length, along one axis or several, which shows when it is read, and is padded.
    Streamed {
        /// The greatest length that is read along each axis.
        longest: Extent,
    },
    /// Each has its own length, and several of them lie in a row, one behind the other; none is longer than a row.
    ///
    /// To a run a row is what a sample is where they are padded: a batch is so many rows.
    Packed {
        /// The lengths.
        index: SampleIndex<1>,
        /// Positions of a row.
        row_len: u32,
    },
}

impl Lengths {
    /// Returns the lengths of all samples, where they are known.
    pub fn index(&self) -> Option<Index> {
        match self {
            Self::Known(index) => Some(index.clone()),
            Self::Grouped(groups) => Some(groups.index().clone().into()),
            Self::Packed { index, .. } => Some(index.clone().into()),
            Self::Cut | Self::Streamed { .. } => None,
        }
    }
}

/// Returns the lengths of all samples, in the order of their ids, as far as they are known before any is read.
pub fn known_extents<S: Source>(source: &S) -> impl Iterator<Item = Option<Extent>> {
    let index = source.lengths().index();
    (0..source.n_samples()).map(move |id| match &index {
        Some(index) => index.get(id),
        None => source.expected_extent(id),
    })
}

/// One sample on the host.
pub trait Item: Send + 'static {
    /// Returns the lengths that are padded, from 1; 1 for a sample that is cut to the edge of its step.
    fn extent(&self) -> Extent {
        Extent::new(1)
    }

    /// Returns the host memory that it holds.
    fn bytes(&self) -> Bytes {
        Bytes::ZERO
    }

    /// Returns at how many of its positions there is something to learn: what it counts in the mean of a loss that is taken over
    /// [`Unit::Positions`](crate::Unit::Positions). By default all of them.
    fn counted_positions(&self) -> u64 {
        self.extent().positions()
    }

    /// Returns its task.
    fn task(&self) -> u16 {
        0
    }
}

/// For sources that read while they collate, since what they read depends on the edge.
impl Item for () {}

/// Samples that get one extent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// The samples, in order.
    pub ids: Vec<u64>,
    /// What each row is cut or padded to.
    pub extent: Extent,
    /// How many samples lie in each row, where they are packed; else each has a row of its own.
    pub packed: Option<Vec<u32>>,
}

impl Part {
    /// Describes samples with a row each.
    pub fn new(ids: Vec<u64>, extent: impl Into<Extent>) -> Self {
        Self { ids, extent: extent.into(), packed: None }
    }

    /// Returns how many rows there are.
    pub fn n_rows(&self) -> usize {
        self.packed.as_ref().map_or(self.ids.len(), Vec::len)
    }

    /// Returns the first sample of each row.
    fn first_of_rows(&self) -> impl Iterator<Item = u64> {
        let starts = self.row_sizes().scan(0, |end, size| Some(std::mem::replace(end, *end + size)));
        starts.filter_map(|start| self.ids.get(start).copied())
    }

    /// Returns how many samples each row has.
    pub fn row_sizes(&self) -> impl Iterator<Item = usize> {
        let sizes = self.packed.iter().flatten().map(|n| *n as usize);
        sizes.chain(std::iter::repeat_n(1, if self.packed.is_some() { 0 } else { self.ids.len() }))
    }

    fn leave_out(&mut self, ids: &[u64]) {
        let mut rest = self.ids.as_slice();
        let left = |size: &mut u32| {
            let row;
            (row, rest) = rest.split_at(*size as usize);
            *size = row.iter().map(|id| u32::from(!ids.contains(id))).sum();
        };
        if let Some(sizes) = &mut self.packed {
            sizes.iter_mut().for_each(left);
            sizes.retain(|size| 0 < *size);
        }
        self.ids.retain(|id| !ids.contains(id));
    }
}

/// The samples of one optimizer step, and the extents that they get.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Draw {
    /// Epoch, from 0.
    pub epoch: u64,
    /// The samples, in order; no part is empty.
    pub parts: Vec<Part>,
}

impl Draw {
    /// Describes batches of samples with a row each.
    pub fn of_batches<const AXES: usize>(epoch: u64, batches: impl IntoIterator<Item = StepBatch<AXES>>) -> Self {
        let parts = batches.into_iter().map(|StepBatch { ids, cell }| Part::new(ids, extent(cell)));
        Self { epoch, parts: parts.collect() }
    }

    /// Describes samples of an epoch that all get one extent.
    pub fn of_extent(epoch: u64, ids: Vec<u64>, extent: impl Into<Extent>) -> Self {
        Self { epoch, parts: vec![Part::new(ids, extent)] }
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

    /// Returns of each sample, in this order, whether it lies in one of these rows of its part.
    pub(crate) fn are_of(&self, rows: impl Iterator<Item = Range<usize>>) -> impl Iterator<Item = bool> {
        let of_part = |(part, own): (&Part, Range<usize>)| {
            let of_row = |(row, size)| std::iter::repeat_n(own.contains(&row), size);
            part.row_sizes().enumerate().flat_map(of_row).collect::<Vec<_>>()
        };
        self.parts.iter().zip(rows).flat_map(of_part)
    }

    /// Returns the first sample of each row.
    pub(crate) fn first_of_rows(&self) -> impl Iterator<Item = u64> {
        self.parts.iter().flat_map(Part::first_of_rows)
    }

    /// Removes samples, and the parts that have no more.
    pub(crate) fn leave_out(&mut self, ids: &[u64]) {
        if ids.is_empty() {
            return;
        }
        for part in &mut self.parts {
            part.leave_out(ids);
        }
        self.parts.retain(|part| !part.ids.is_empty());
    }

    /// Pads samples of these lengths to less, in the same order, where they are padded to what is too large.
    pub(crate) fn pad_to_less(&mut self, too_large: &TooLarge, extents: &[Extent]) {
        let (parts, mut rest) = (std::mem::take(&mut self.parts), extents);
        for part in parts {
            let own;
            (own, rest) = rest.split_at(part.ids.len());
            if !too_large.has_cell(part.extent) {
                self.parts.push(part);
                continue;
            }
            let padded: Vec<_> = part.ids.into_iter().zip(too_large.padded(own)).collect();
            let alike = padded.chunk_by(|a, b| a.1 == b.1);
            self.parts.extend(alike.map(|it| Part::new(it.iter().map(|(id, _)| *id).collect(), it[0].1)));
        }
    }

    /// Returns the micro-batches: every part, divided where it has more rows than one may have.
    pub(crate) fn micro_batches(&self, most: u32) -> Vec<StepPart> {
        let mut start = 0;
        let divide = |part: &Part| {
            let samples = start..start + part.n_rows();
            start = samples.end;
            StepPart::divide(samples, part.extent, most)
        };
        self.parts.iter().flat_map(divide).collect()
    }

    /// Returns how many samples there are.
    pub fn n_samples(&self) -> usize {
        self.parts.iter().map(|part| part.ids.len()).sum()
    }

    /// Returns how many rows there are.
    pub fn n_rows(&self) -> usize {
        self.parts.iter().map(Part::n_rows).sum()
    }

    /// Returns of each row which samples of this order lie in it.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Range<usize>> {
        self.parts.iter().flat_map(Part::row_sizes).scan(0, |end, size| {
            let start = *end;
            *end += size;
            Some(start..*end)
        })
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
