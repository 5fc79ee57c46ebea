//! What a loader is told.

use plimsoll_sampler::{StepSize, TaskMix};
use plimsoll_types::{Bytes, StepShape};

use super::{BadSample, LoaderError};
use crate::source::{Lengths, Source};

/// What an optimizer step takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepUnit {
    /// `effective_batch_size` samples; the last step of an epoch takes what is left.
    Samples,
    /// `effective_batch_size` positions on average: tokens or frames, without padding.
    Positions,
    /// One batch, as large as the memory allows, of about as many samples as `effective_batch_size` at most: the effective
    /// batch size varies.
    Batch,
    /// The same, of about as many positions at most.
    BatchOfPositions,
}

/// What a loader may use, and what it fills its steps with.
#[derive(Clone, Debug, PartialEq)]
pub struct LoaderConfig {
    /// Where the order comes from, together with the epoch.
    pub seed: u64,
    /// What an optimizer step takes; where it varies, the size that the learning rate is for.
    pub effective_batch_size: u32,
    /// What that counts.
    pub unit: StepUnit,
    /// The largest edge that will be asked for.
    pub largest_edge: u32,
    /// The edges that samples of different length are padded to; empty where samples are cut.
    pub edges: Vec<u32>,
    /// A step of padded samples is made of at least about so many batches, so that it mixes lengths, and tasks with them;
    /// at least 1.
    pub batches_per_step: u32,
    /// How tasks are mixed.
    pub tasks: TaskMix,
    /// Samples of a stream that are held at most, in batches that wait for a step or not planned yet.
    pub look_ahead: usize,
    /// Worker threads.
    pub workers: usize,
    /// Host memory that the buffers may hold together.
    pub buffer_limit: Bytes,
    /// What becomes of a sample that cannot be read.
    pub bad_sample: BadSample,
}

/// At most this many steps are collated ahead: more would only be thrown away at the next change of the sizes.
const MAX_AHEAD: u64 = 4;

impl LoaderConfig {
    /// Cuts samples to one edge, and collates with one thread: the rest is as it is by default.
    pub fn cut(seed: u64, effective_batch_size: u32, largest_edge: u32, buffer_limit: Bytes) -> Self {
        Self {
            seed,
            effective_batch_size,
            unit: StepUnit::Samples,
            largest_edge,
            edges: Vec::new(),
            batches_per_step: 1,
            tasks: TaskMix::default(),
            look_ahead: 1024,
            workers: 1,
            buffer_limit,
            bad_sample: BadSample::Fail,
        }
    }

    /// Returns how much a step takes.
    pub fn step_size(&self) -> StepSize {
        match self.unit {
            StepUnit::Samples => StepSize::Samples(self.effective_batch_size),
            StepUnit::Positions => StepSize::Positions(self.effective_batch_size.into()),
            StepUnit::Batch | StepUnit::BatchOfPositions => StepSize::Batch,
        }
    }

    /// Returns how many samples of this edge a step holds, if it holds no others.
    pub fn samples_of(&self, edge: u32) -> u32 {
        match self.unit {
            StepUnit::Samples | StepUnit::Batch => self.effective_batch_size,
            StepUnit::Positions | StepUnit::BatchOfPositions => self.effective_batch_size.div_ceil(edge.max(1)),
        }
    }

    /// Returns how many samples of this edge a batch of a step may have.
    pub fn batch_of(&self, edge: u32) -> u32 {
        match self.unit {
            StepUnit::Samples | StepUnit::Positions => self.samples_of(edge).div_ceil(self.batches_per_step.max(1)),
            StepUnit::Batch | StepUnit::BatchOfPositions => self.samples_of(edge),
        }
    }

    /// Returns a shape with as many padded positions as the largest step.
    pub fn largest(&self) -> StepShape {
        let edge = self.largest_edge;
        match self.unit {
            StepUnit::Samples | StepUnit::Batch => StepShape::new(self.effective_batch_size, edge),
            StepUnit::Positions | StepUnit::BatchOfPositions => {
                // A step may end with a sample of the largest edge, and every one before it is padded.
                let padded = u64::from(self.effective_batch_size) * self.most_padding() + u64::from(edge);
                StepShape::new(u32::try_from(padded.div_ceil(edge.max(1).into())).unwrap_or(u32::MAX), edge)
            }
        }
    }

    /// Returns the largest ratio of a padded length to a length, rounded up.
    fn most_padding(&self) -> u64 {
        let shortest = std::iter::once(1).chain(self.edges.iter().map(|edge| edge + 1));
        self.edges.iter().zip(shortest).map(|(edge, length)| u64::from(edge.div_ceil(length))).max().unwrap_or(1)
    }

    /// Allocates the buffers of a loader.
    pub(crate) fn buffers<S: Source>(&self, source: &S) -> Result<Vec<S::Buffer>, LoaderError> {
        let (step, limit) = (source.buffer_bytes(self.largest()), self.buffer_limit);
        // The other half is for samples that are read before they are planned.
        let streamed = matches!(source.lengths(), Lengths::Streamed { .. });
        let share = if streamed { limit.0 / 2 } else { limit.0 };
        match (share / step.0.max(1)).min(MAX_AHEAD) {
            0 | 1 => Err(LoaderError::BufferLimit { step, limit }),
            ahead => Ok((0..ahead).map(|_| source.buffer(self.largest())).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_step_has_room_for_the_worst_padding() {
        let config = LoaderConfig {
            unit: StepUnit::Positions,
            edges: vec![4, 16, 20],
            ..LoaderConfig::cut(0, 100, 20, Bytes::mib(1))
        };
        // 100 samples of length 1, each padded to 4, or 20 of length 5, each padded to 16; and one that is longer.
        let largest = config.largest();
        assert!(largest.positions() >= 420, "{largest}");
        assert_eq!(LoaderConfig::cut(0, 32, 64, Bytes::mib(1)).largest(), StepShape::new(32, 64));
    }
}
