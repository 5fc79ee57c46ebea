//! The tokens of a batch, on the host and on the device.

use std::ops::Range;

use burn::tensor::{Device, Int, Tensor, TensorData};
use plimsoll_train::sent;
use plimsoll_types::{Bytes, StepShape};

use super::tokenizer::BOUNDARY;

/// Marks a position that predicts nothing; no vocabulary has so many tokens.
const PADDING: u16 = u16::MAX;

/// Host memory for the tokens of one optimizer step, used again and again.
///
/// The samples of a part lie one after the other, each padded to the part's edge.
#[derive(Debug)]
pub struct TokenBuffer {
    inputs: Vec<u16>,
    targets: Vec<u16>,
    parts: Vec<Part>,
}

/// Where a part lies.
#[derive(Debug)]
struct Part {
    first_sample: usize,
    n_samples: usize,
    first_position: usize,
    edge: usize,
}

/// Tokens, what follows them, and what each prediction weighs in the mean.
///
/// # Shapes
///
/// - all: `[batch_size, edge]`
#[derive(Debug)]
pub struct Tokens {
    pub(crate) inputs: Tensor<2, Int>,
    pub(crate) targets: Tensor<2, Int>,
    pub(crate) weights: Tensor<2>,
}

impl TokenBuffer {
    /// Takes the memory for `most.positions()` padded positions, which more samples of a smaller edge may share.
    pub fn with_capacity(most: StepShape) -> Self {
        let n = most.samples as usize * most.edge() as usize;
        Self { inputs: Vec::with_capacity(n), targets: Vec::with_capacity(n), parts: Vec::new() }
    }

    /// Returns how many bytes of tokens a buffer of this capacity takes.
    pub fn byte_capacity(most: StepShape) -> Bytes {
        Bytes(2 * size_of::<u16>() as u64).saturating_mul(most.positions())
    }

    /// Forgets all samples.
    pub(crate) fn clear(&mut self) {
        self.inputs.clear();
        self.targets.clear();
        self.parts.clear();
    }

    /// Adds samples padded to one edge, each of one token more than it predicts, and at most `edge + 1`.
    pub(crate) fn push<'a>(&mut self, edge: u32, samples: impl ExactSizeIterator<Item = &'a [u16]>) {
        let first_sample = self.parts.last().map_or(0, |part| part.first_sample + part.n_samples);
        let (first_position, edge) = (self.inputs.len(), edge as usize);
        self.parts.push(Part { first_sample, n_samples: samples.len(), first_position, edge });
        for (sample, end) in samples.zip((first_position + edge..).step_by(edge)) {
            let n = sample.len() - 1;
            self.inputs.extend_from_slice(&sample[..n]);
            self.targets.extend_from_slice(&sample[1..]);
            self.inputs.resize(end, BOUNDARY);
            self.targets.resize(end, PADDING);
        }
    }

    /// Copies samples of one part to a device.
    ///
    /// # Panics
    ///
    /// When they are of no part, or of several.
    pub(crate) fn tokens(&self, samples: &Range<usize>, device: &Device) -> Tokens {
        let part = self.parts.iter().rfind(|part| part.first_sample <= samples.start);
        let part = part.filter(|part| samples.end <= part.first_sample + part.n_samples);
        let part = part.expect("samples of one part");
        let position = |sample: usize| part.first_position + (sample - part.first_sample) * part.edge;
        let range = position(samples.start)..position(samples.end);
        let (inputs, targets) = (&self.inputs[range.clone()], &self.targets[range]);
        let shape = [samples.len(), part.edge];
        let n_real = targets.iter().filter(|it| **it != PADDING).count();
        let weight = |target: &u16| if *target == PADDING { 0.0 } else { 1.0 / n_real as f32 };
        Tokens {
            inputs: integers(inputs, shape, device),
            targets: integers(targets, shape, device),
            weights: sent(TensorData::new(targets.iter().map(weight).collect(), shape), device),
        }
    }
}

impl Tokens {
    /// Returns tokens of this shape, of which none is padding.
    pub(crate) fn blank(shape: StepShape, device: &Device) -> Self {
        let shape = [shape.samples as usize, shape.edge() as usize];
        let integers = || Tensor::zeros(shape, device);
        Self { inputs: integers(), targets: integers(), weights: Tensor::ones(shape, device) }
    }
}

/// What is padding becomes a token, since the model has a row for tokens only.
fn integers(tokens: &[u16], shape: [usize; 2], device: &Device) -> Tensor<2, Int> {
    let token = |it: &u16| i32::from(if *it == PADDING { BOUNDARY } else { *it });
    sent(TensorData::new(tokens.iter().map(token).collect(), shape), device)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(tokens: Tensor<2, Int>) -> Vec<i64> {
        tokens.into_data().convert::<i64>().try_into_vec().unwrap()
    }

    #[test]
    fn samples_are_padded_to_the_edge_of_their_part() {
        let mut buffer = TokenBuffer::with_capacity(StepShape::new(2, 5));
        buffer.push(3, [&[1, 2, 3, 4][..], &[5, 6]].into_iter());
        buffer.push(4, [&[7, 8, 9][..]].into_iter());
        let Tokens { inputs, targets, weights } = buffer.tokens(&(0..2), &Device::flex());
        assert_eq!((ints(inputs), ints(targets)), (vec![1, 2, 3, 5, 0, 0], vec![2, 3, 4, 6, 0, 0]));
        assert_eq!(weights.into_data().try_into_vec::<f32>().unwrap(), [0.25, 0.25, 0.25, 0.25, 0.0, 0.0]);
        let Tokens { inputs, targets, weights } = buffer.tokens(&(2..3), &Device::flex());
        assert_eq!((ints(inputs), ints(targets)), (vec![7, 8, 0, 0], vec![8, 9, 0, 0]));
        assert_eq!(weights.into_data().try_into_vec::<f32>().unwrap(), [0.5, 0.5, 0.0, 0.0]);
    }

    #[test]
    fn nothing_is_reallocated_after_construction() {
        let mut buffer = TokenBuffer::with_capacity(StepShape::new(2, 6));
        let blocks = |it: &TokenBuffer| [&it.inputs, &it.targets].map(|it| (it.as_ptr().addr(), it.capacity()));
        let before = blocks(&buffer);
        for (edge, n) in [(6, 2), (1, 12), (4, 3), (12, 1)] {
            buffer.clear();
            buffer.push(edge, std::iter::repeat_n(&[1, 2][..], n));
            assert_eq!(blocks(&buffer), before);
        }
    }

    #[test]
    #[should_panic(expected = "samples of one part")]
    fn samples_of_two_parts_make_no_batch() {
        let mut buffer = TokenBuffer::with_capacity(StepShape::new(2, 6));
        buffer.push(3, [&[1, 2][..]].into_iter());
        buffer.push(4, [&[1, 2][..]].into_iter());
        buffer.tokens(&(0..2), &Device::flex());
    }
}
