//! The pixels of a batch in host memory.

use plimsoll_types::{Bytes, StepShape};

/// A micro-batch that is larger than its buffer was built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("begin a micro-batch of {wanted} px, the host buffer holds at most {most} px")]
pub struct BeyondCapacity {
    /// The samples and the edge asked for.
    pub wanted: StepShape,
    /// The most samples and the largest edge.
    pub most: StepShape,
}

/// Host memory for the low- and high-resolution pixels of one batch, used again and again.
///
/// It takes all its memory when it is built and never reallocates.
///
/// # Shapes
///
/// * [`HostBuffer::lr`]: `[samples, 3, edge, edge]`.
/// * [`HostBuffer::hr`]: `[samples, 3, edge · scale, edge · scale]`.
#[derive(Clone, Debug)]
pub struct HostBuffer {
    most: StepShape,
    scale: u32,
    edge: u32,
    ids: Vec<u64>,
    lr: Box<[u8]>,
    hr: Box<[u8]>,
}

/// The places of one sample, planar.
#[derive(Debug)]
pub struct Pair<'a> {
    /// `[3, edge, edge]`, the input.
    pub lr: &'a mut [u8],
    /// `[3, edge · scale, edge · scale]`, the target.
    pub hr: &'a mut [u8],
}

impl HostBuffer {
    /// Takes the memory for batches of at most `max_samples` crops, each with an edge of at most `max_edge` pixels
    /// at the input resolution and `scale` times that at the output resolution.
    ///
    /// # Panics
    ///
    /// When so much memory cannot be addressed.
    pub fn with_capacity(max_samples: u32, max_edge: u32, scale: u32) -> Self {
        let most = StepShape::new(max_samples, max_edge);
        let zeros = |scale| vec![0; batch_len(most, scale)].into_boxed_slice();
        let ids = Vec::with_capacity(max_samples as usize);
        Self { most, scale, edge: 0, ids, lr: zeros(1), hr: zeros(scale) }
    }

    /// Returns how many bytes of pixels a buffer of this capacity takes.
    pub fn byte_capacity(max_samples: u32, max_edge: u32, scale: u32) -> Bytes {
        let squared = |n: u32| u64::from(n).pow(2);
        let low = Bytes(3 * u64::from(max_samples)).saturating_mul(squared(max_edge));
        low.saturating_add(low.saturating_mul(squared(scale)))
    }

    /// Starts a batch of these samples; the pixels are those of the last one until they are written.
    ///
    /// # Errors
    ///
    /// [`BeyondCapacity`] when there are more samples, or a longer edge, than the buffer was built for.
    pub fn begin(&mut self, ids: &[u64], edge: u32) -> Result<(), BeyondCapacity> {
        let samples = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        if samples > self.most.samples || edge > self.most.edge() {
            return Err(BeyondCapacity { wanted: StepShape::new(samples, edge), most: self.most });
        }
        self.ids.clear();
        self.ids.extend_from_slice(ids);
        self.edge = edge;
        Ok(())
    }

    /// Returns the places of the sample at `index` of the batch.
    ///
    /// # Panics
    ///
    /// When the batch has no such sample.
    pub fn pair_mut(&mut self, index: usize) -> Pair<'_> {
        assert!(index < self.ids.len(), "sample {index} of a micro-batch of {}", self.ids.len());
        let (low, high) = (self.sample_len(1), self.sample_len(self.scale));
        Pair { lr: &mut self.lr[index * low..][..low], hr: &mut self.hr[index * high..][..high] }
    }

    /// Returns the input pixels of the batch.
    pub fn lr(&self) -> &[u8] {
        &self.lr[..self.ids.len() * self.sample_len(1)]
    }

    /// Returns the target pixels of the batch.
    pub fn hr(&self) -> &[u8] {
        &self.hr[..self.ids.len() * self.sample_len(self.scale)]
    }

    /// Returns the sample ids of the batch.
    pub fn ids(&self) -> &[u64] {
        &self.ids
    }

    /// Returns the edge of the batch's crops, in pixels at the input resolution.
    pub fn edge(&self) -> u32 {
        self.edge
    }

    /// Returns how many times longer the target's edge is than the input's.
    pub fn scale(&self) -> u32 {
        self.scale
    }

    fn sample_len(&self, scale: u32) -> usize {
        batch_len(StepShape::new(1, self.edge), scale)
    }
}

/// Returns the bytes of a batch's planes at `scale` times its edge.
fn batch_len(shape: StepShape, scale: u32) -> usize {
    let edge = shape.edge() as usize * scale as usize;
    edge.checked_mul(edge)
        .and_then(|area| area.checked_mul(3 * shape.samples as usize))
        .expect("a micro-batch that can be addressed")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the buffer's three blocks lie, and how long they are.
    fn blocks(buffer: &HostBuffer) -> [(usize, usize); 3] {
        [
            (buffer.lr.as_ptr().addr(), buffer.lr.len()),
            (buffer.hr.as_ptr().addr(), buffer.hr.len()),
            (buffer.ids.as_ptr().addr(), buffer.ids.capacity()),
        ]
    }

    #[test]
    fn nothing_is_reallocated_after_construction() {
        let mut buffer = HostBuffer::with_capacity(4, 32, 2);
        let before = blocks(&buffer);
        for (samples, edge) in [(1, 8), (4, 32), (0, 0), (3, 24), (4, 32)] {
            buffer.begin(&[9; 4][..samples], edge).unwrap();
            (0..samples).for_each(|index| buffer.pair_mut(index).hr.fill(1));
            assert_eq!(blocks(&buffer), before);
        }
    }

    #[test]
    fn a_request_beyond_the_capacity_is_an_error_with_the_sizes() {
        let mut buffer = HostBuffer::with_capacity(4, 32, 2);
        buffer.begin(&[3], 16).unwrap();
        let error = buffer.begin(&[0; 5], 16).unwrap_err();
        let message = "begin a micro-batch of 5 × 16 px, the host buffer holds at most 4 × 32 px";
        assert_eq!(error.to_string(), message);
        assert!(buffer.begin(&[0; 1], 33).is_err());
        assert_eq!((buffer.ids(), buffer.edge()), (&[3][..], 16));
    }

    #[test]
    fn samples_lie_side_by_side_and_fill_the_micro_batch() {
        let mut buffer = HostBuffer::with_capacity(3, 32, 2);
        buffer.begin(&[7, 8], 4).unwrap();
        for (index, value) in [(0, 1), (1, 2)] {
            let pair = buffer.pair_mut(index);
            pair.lr.fill(value);
            pair.hr.fill(value + 10);
        }
        assert_eq!(buffer.lr(), [[1; 3 * 16], [2; 3 * 16]].concat());
        assert_eq!(buffer.hr(), [[11; 3 * 64], [12; 3 * 64]].concat());
    }

    #[test]
    fn the_byte_capacity_is_what_is_taken() {
        let buffer = HostBuffer::with_capacity(5, 24, 3);
        let taken = (buffer.lr.len() + buffer.hr.len()) as u64;
        assert_eq!(HostBuffer::byte_capacity(5, 24, 3), Bytes(taken));
        assert_eq!(HostBuffer::byte_capacity(u32::MAX, u32::MAX, u32::MAX), Bytes::MAX);
    }

    #[test]
    #[should_panic(expected = "sample 1 of a micro-batch of 1")]
    fn a_sample_that_is_not_there_panics() {
        let mut buffer = HostBuffer::with_capacity(3, 32, 2);
        buffer.begin(&[7], 4).unwrap();
        buffer.pair_mut(1);
    }
}
