//! Recordings in memory: one by one, and those of a step one after the other.

use std::ops::Range;

use plimsoll_train::Item;
use plimsoll_types::{Bytes, Extent};

use super::fault::Fault;

/// A recording in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Frames {
    /// The values, of shape `[n_frames, n_values]`.
    pub values: Vec<f32>,
    length: u32,
    class: usize,
    source: u16,
}

impl Frames {
    pub(crate) fn new(values: Vec<f32>, n_values: usize, class: usize) -> Self {
        let length = u32::try_from(values.len() / n_values).unwrap_or(u32::MAX);
        Self { values, length, class, source: 0 }
    }

    pub(crate) fn of_source(self, source: u16) -> Self {
        Self { source, ..self }
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

    /// Recordings of a source share batches as those of a task do.
    fn task(&self) -> u16 {
        self.source
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
    /// Makes room for so many values and recordings.
    pub(crate) fn with_room(n_values: usize, n_samples: usize) -> Self {
        Self { values: Vec::with_capacity(n_values), samples: Vec::with_capacity(n_samples) }
    }

    /// Takes all recordings out; their room stays.
    pub(crate) fn clear(&mut self) {
        self.values.clear();
        self.samples.clear();
    }

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
