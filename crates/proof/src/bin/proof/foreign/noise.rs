//! Samples without meaning: no allocation depends on what is in them.

use plimsoll_train::{Draw, Source, SourceError};
use plimsoll_types::{Bytes, StepShape};

/// Samples, enough for the largest step.
const N_SAMPLES: u64 = 256;

/// Samples of any edge, made when they are collated.
pub(crate) struct Noise {
    /// Values of one sample of an edge.
    pub(crate) n_values: fn(usize) -> usize,
}

/// The values of a step, and the edge of each sample.
pub(crate) struct NoiseBuffer {
    pub(crate) values: Vec<f32>,
    pub(crate) edges: Vec<u32>,
}

impl Noise {
    /// Returns where each sample of a buffer ends.
    fn values_of(&self, edge: u32) -> usize {
        (self.n_values)(edge as usize)
    }

    fn values_of_all(&self, largest: StepShape) -> usize {
        largest.samples as usize * self.values_of(largest.edge())
    }
}

impl Source for Noise {
    type Item = ();
    type Buffer = NoiseBuffer;

    fn n_samples(&self) -> u64 {
        N_SAMPLES
    }

    fn read(&self, _epoch: u64, _id: u64) -> Result<(), SourceError> {
        Ok(())
    }

    fn buffer_bytes(&self, largest: StepShape) -> Bytes {
        Bytes(4 * (self.values_of_all(largest) as u64 + u64::from(largest.samples)))
    }

    fn buffer(&self, largest: StepShape) -> NoiseBuffer {
        NoiseBuffer {
            values: Vec::with_capacity(self.values_of_all(largest)),
            edges: Vec::with_capacity(largest.samples as usize),
        }
    }

    fn collate(&self, draw: &Draw, _items: &[()], buffer: &mut NoiseBuffer) -> Result<(), SourceError> {
        buffer.values.clear();
        buffer.edges.clear();
        for part in &draw.parts {
            for id in &part.ids {
                let value = |at: usize| (((*id % 17) * 31 + (at % 17) as u64 * 7) % 17) as f32 / 17.0;
                buffer.values.extend((0..self.values_of(part.extent.edge())).map(value));
                buffer.edges.push(part.extent.edge());
            }
        }
        Ok(())
    }
}
