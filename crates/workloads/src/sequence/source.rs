//! Recordings as training samples, read from disk in every epoch.

use std::ops::Range;
use std::sync::Arc;

use plimsoll_sampler::SampleIndex;
use plimsoll_train::{Draw, Item, Lengths, Source, SourceError};
use plimsoll_types::{Bytes, Extent, StepShape};

use super::fault::Fault;
use super::recordings::{Recording, Recordings};

/// The recordings to train on; every one is read from disk whenever it is drawn.
pub struct RecordingStream {
    recordings: Arc<Recordings>,
    is_streamed: bool,
    longest: u32,
}

/// A recording in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Frames {
    /// The values, of shape `[n_frames, n_values]`.
    pub values: Vec<f32>,
    length: u32,
    class: usize,
}

impl Frames {
    pub(crate) fn new(values: Vec<f32>, n_values: usize, class: usize) -> Self {
        let length = u32::try_from(values.len() / n_values).unwrap_or(u32::MAX);
        Self { values, length, class }
    }

    /// Returns how many frames there are.
    pub(crate) const fn length(&self) -> u32 {
        self.length
    }
}

impl Item for Frames {
    fn extent(&self) -> Extent {
        self.length.into()
    }

    fn bytes(&self) -> Bytes {
        Bytes((self.values.len() * size_of::<f32>()) as u64)
    }
}

/// The padded recordings of one optimizer step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FrameBuffer {
    values: Vec<f32>,
    samples: Vec<Placed>,
}

/// Where a recording lies in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// Its values, padding included.
    start: usize,
    end: usize,
    /// Frames that are no padding.
    pub(crate) n_frames: usize,
    pub(crate) class: usize,
}

impl FrameBuffer {
    /// Adds a recording, padded with zeros.
    pub(crate) fn push(&mut self, frames: &Frames, edge: u32) -> Result<(), Fault> {
        if edge < frames.length {
            return Err(Fault::Grown { found: frames.length, most: edge });
        }
        let (start, n_frames) = (self.values.len(), frames.length as usize);
        let end = start + edge as usize * (frames.values.len() / n_frames);
        self.values.extend_from_slice(&frames.values);
        self.values.resize(end, 0.0);
        self.samples.push(Placed { start, end, n_frames, class: frames.class });
        Ok(())
    }

    /// Returns some of the recordings, and the values of all of them.
    pub(crate) fn range(&self, range: Range<usize>) -> (&[Placed], &[f32]) {
        let samples = &self.samples[range];
        let (start, end) = (samples.first().map_or(0, |it| it.start), samples.last().map_or(0, |it| it.end));
        (samples, &self.values[start..end])
    }
}

impl RecordingStream {
    /// Draws from these recordings; streamed, none of their lengths but the longest is told before they are read.
    pub fn new(recordings: Arc<Recordings>, is_streamed: bool) -> Self {
        let longest = recordings.train.iter().map(|it| it.n_frames).max().unwrap_or(0);
        Self { recordings, is_streamed, longest }
    }

    fn recording(&self, id: u64) -> &Recording {
        &self.recordings.train[usize::try_from(id).unwrap_or(usize::MAX)]
    }

    fn error(&self, sample_id: u64, fault: &Fault) -> SourceError {
        SourceError { sample_id, reason: format!("{}: {fault}", self.recording(sample_id).name) }
    }

    fn n_values(&self, shape: StepShape) -> usize {
        shape.samples as usize * shape.edge() as usize * self.recordings.n_values()
    }
}

impl Source for RecordingStream {
    type Item = Frames;
    type Buffer = FrameBuffer;

    fn n_samples(&self) -> u64 {
        self.recordings.train.len() as u64
    }

    fn lengths(&self) -> Lengths {
        let lengths: Vec<_> = self.recordings.train.iter().map(|it| it.n_frames).collect();
        match SampleIndex::try_new([lengths]) {
            Ok(index) if !self.is_streamed => Lengths::Known(index.into()),
            _ => Lengths::Streamed { longest: self.longest },
        }
    }

    fn expected_length(&self, id: u64) -> Option<u32> {
        Some(self.recording(id).n_frames)
    }

    fn describe(&self, id: u64) -> String {
        self.recording(id).to_string()
    }

    fn smaller(&self) -> &'static str {
        "a lower `sequence.longest`, which cuts it"
    }

    /// The same in every epoch, unless the file changes; then it has to fit what is known of the lengths.
    fn read(&self, _epoch: u64, id: u64) -> Result<Frames, SourceError> {
        let recording = self.recording(id);
        let frames = self.recordings.frames(recording).map_err(|fault| self.error(id, &fault))?;
        let (found, expected, most) = (frames.length, recording.n_frames, self.longest);
        match self.is_streamed {
            true if most < found => Err(self.error(id, &Fault::Grown { found, most })),
            false if found != expected => Err(self.error(id, &Fault::Changed { found, expected })),
            _ => Ok(frames),
        }
    }

    fn buffer_bytes(&self, largest: StepShape) -> Bytes {
        let samples = largest.samples as usize * size_of::<Placed>();
        Bytes((self.n_values(largest) * size_of::<f32>() + samples) as u64)
    }

    /// A step of many short recordings may have more of them than the largest shape, which costs some bytes each.
    fn buffer(&self, largest: StepShape) -> FrameBuffer {
        let values = Vec::with_capacity(self.n_values(largest));
        FrameBuffer { values, samples: Vec::with_capacity(largest.samples as usize) }
    }

    fn collate(&self, draw: &Draw, items: &[Frames], buffer: &mut FrameBuffer) -> Result<(), SourceError> {
        buffer.values.clear();
        buffer.samples.clear();
        let edges = draw.parts.iter().flat_map(|part| part.ids.iter().map(|id| (*id, part.extent.edge())));
        for ((id, edge), frames) in edges.zip(items) {
            buffer.push(frames, edge).map_err(|fault| self.error(id, &fault))?;
        }
        Ok(())
    }
}
