//! Recordings as training samples, read from disk when they are drawn.

use std::sync::Arc;

use plimsoll_sampler::{Groups, IndexError, SampleIndex};
use plimsoll_train::{Draw, Lengths, NamedSource, Source, SourceError};
use plimsoll_types::{Bytes, Extent, StepShape};

use super::fault::Fault;
use super::frames::{FrameBuffer, Frames, Placed};
use super::recording::Recording;
use super::recordings::Recordings;

/// The recordings to train on; every one is read from disk when it is drawn, unless its frames are kept.
pub struct RecordingStream {
    recordings: Arc<Recordings>,
    is_streamed: bool,
    longest: u32,
}

impl RecordingStream {
    /// Draws from these recordings; streamed, steps are planned by the lengths that show when they are read;
    /// those of the list are only expected.
    pub fn new(recordings: Arc<Recordings>, is_streamed: bool) -> Self {
        let longest = recordings.train.iter().map(|it| it.n_frames).max().unwrap_or(0);
        Self { recordings, is_streamed, longest }
    }

    fn n_frames(&self) -> Vec<u32> {
        self.recordings.train.iter().map(|it| it.n_frames).collect()
    }

    /// Returns the lengths, with sources as tasks and weights where there are such.
    fn index(&self) -> Result<SampleIndex<1>, IndexError> {
        let (train, mut index) = (&self.recordings.train, SampleIndex::try_new([self.n_frames()])?);
        if !self.recordings.sources.is_empty() {
            index = index.with_tasks(train.iter().map(|it| it.source).collect::<Vec<_>>())?;
        }
        let weights: Vec<_> = train.iter().filter_map(|it| it.weight).collect();
        if weights.is_empty() { Ok(index) } else { index.with_weights(&weights) }
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
        let streamed = Lengths::Streamed { longest: self.longest.into() };
        if self.is_streamed {
            return streamed;
        }
        if self.recordings.together_column.is_some() {
            let group_of: Vec<_> = self.recordings.train.iter().map(|it| it.together).collect();
            return Groups::try_new(&self.n_frames(), &group_of).map_or(streamed, Lengths::Grouped);
        }
        self.index().map_or(streamed, |it| Lengths::Known(it.into()))
    }

    fn sources(&self) -> &[NamedSource] {
        &self.recordings.sources
    }

    fn expected_extent(&self, id: u64) -> Option<Extent> {
        Some(self.recording(id).n_frames.into())
    }

    fn describe(&self, id: u64) -> String {
        self.recording(id).to_string()
    }

    fn smaller(&self) -> &'static str {
        "a lower `data.longest` with `data.outside = \"truncate\"`, which cuts it"
    }

    /// The same in every epoch, unless it is not kept and the file changes; then it has to fit what is known of the lengths.
    fn read(&self, _epoch: u64, id: u64) -> Result<Frames, SourceError> {
        let recording = self.recording(id);
        let frames = self.recordings.frames(recording).map_err(|fault| self.error(id, &fault))?;
        let (found, expected, most) = (frames.length(), recording.n_frames, self.longest);
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
        FrameBuffer::with_room(self.n_values(largest), largest.samples as usize)
    }

    fn collate(&self, draw: &Draw, items: &[Frames], buffer: &mut FrameBuffer) -> Result<(), SourceError> {
        buffer.clear();
        let edges = draw.parts.iter().flat_map(|part| part.ids.iter().map(|id| (*id, part.extent.edge())));
        for ((id, edge), frames) in edges.zip(items) {
            buffer.push(frames, edge).map_err(|fault| self.error(id, &fault))?;
        }
        Ok(())
    }
}
