//! The tokens of a batch, on the host and on the device.

use std::ops::Range;

use burn::tensor::{Device, Int, Tensor, TensorData};
use plimsoll_train::sent;
use plimsoll_types::{Bytes, StepShape};

use super::sight::Sight;
use super::vocabulary::BOUNDARY;

/// Marks a position that has no token, or that predicts none; no vocabulary has so many tokens.
const NONE: u16 = u16::MAX;

/// Host memory for the tokens of one optimizer step, used again and again.
///
/// The rows of a part lie one after the other, each padded to the part's edge; a row has one sample, or several where they are
/// packed.
#[derive(Debug)]
pub struct TokenBuffer {
    /// [`NONE`] where there is padding.
    inputs: Vec<u16>,
    /// [`NONE`] also where another sample predicts what follows.
    targets: Vec<u16>,
    /// Where samples are packed: which one of its row each position belongs to, from 1, or 0 for padding.
    segments: Option<Vec<u16>>,
    parts: Vec<Part>,
}

/// The tokens of a piece, of which it predicts all but the first, and those after that which it repeats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample<'a> {
    pub(crate) tokens: &'a [u16],
    pub(crate) n_repeated: usize,
}

/// Where a part lies.
#[derive(Debug)]
struct Part {
    first_row: usize,
    n_rows: usize,
    first_position: usize,
    edge: usize,
}

/// Tokens, what follows them, and what each prediction weighs in the mean.
///
/// # Shapes
///
/// - all tensors: `[batch_size, edge]`
#[derive(Debug)]
pub struct Tokens {
    pub(crate) inputs: Tensor<2, Int>,
    pub(crate) targets: Tensor<2, Int>,
    pub(crate) weights: Tensor<2>,
    pub(crate) sight: Sight,
}

impl TokenBuffer {
    /// Takes the memory for `most.positions()` padded positions, which more rows of a smaller edge may share.
    pub fn with_capacity(most: StepShape, is_packed: bool) -> Self {
        let n = most.samples as usize * most.edge() as usize;
        let segments = is_packed.then(|| Vec::with_capacity(n));
        let tokens = || Vec::with_capacity(n);
        Self { inputs: tokens(), targets: tokens(), segments, parts: Vec::new() }
    }

    /// Returns how many bytes of tokens a buffer of this capacity takes.
    pub fn byte_capacity(most: StepShape, is_packed: bool) -> Bytes {
        Bytes((2 + u64::from(is_packed)) * size_of::<u16>() as u64).saturating_mul(most.positions())
    }

    /// Forgets all samples.
    pub(crate) fn clear(&mut self) {
        self.inputs.clear();
        self.targets.clear();
        self.segments.iter_mut().for_each(Vec::clear);
        self.parts.clear();
    }

    /// Adds rows of samples, padded to one edge, of which all of a row have at most `edge` positions; a sample
    /// without tokens leaves padding.
    pub(crate) fn push<'a, R: IntoIterator<Item = Sample<'a>>>(
        &mut self,
        edge: u32,
        rows: impl ExactSizeIterator<Item = R>,
    ) {
        let first_row = self.parts.last().map_or(0, |part| part.first_row + part.n_rows);
        let (first_position, edge) = (self.inputs.len(), edge as usize);
        self.parts.push(Part { first_row, n_rows: rows.len(), first_position, edge });
        for (row, end) in rows.zip((first_position + edge..).step_by(edge)) {
            for (Sample { tokens, n_repeated }, segment) in row.into_iter().filter(|it| !it.tokens.is_empty()).zip(1..)
            {
                self.inputs.extend_from_slice(&tokens[..tokens.len() - 1]);
                self.targets.extend(std::iter::repeat_n(NONE, n_repeated));
                self.targets.extend_from_slice(&tokens[n_repeated + 1..]);
                self.segments.iter_mut().for_each(|it| it.resize(self.inputs.len(), segment));
            }
            self.inputs.resize(end, NONE);
            self.targets.resize(end, NONE);
            self.segments.iter_mut().for_each(|it| it.resize(end, 0));
        }
    }

    /// Copies rows of one part to a device.
    ///
    /// # Panics
    ///
    /// When they are of no part, or of several.
    pub(crate) fn tokens(&self, rows: &Range<usize>, device: &Device) -> Tokens {
        let part = self.parts.iter().rfind(|part| part.first_row <= rows.start);
        let part = part.filter(|part| rows.end <= part.first_row + part.n_rows);
        let part = part.expect("rows of one part");
        let position = |row: usize| part.first_position + (row - part.first_row) * part.edge;
        let range = position(rows.start)..position(rows.end);
        let (inputs, targets) = (&self.inputs[range.clone()], &self.targets[range.clone()]);
        let shape = [rows.len(), part.edge];
        let n_predicted = targets.iter().filter(|it| **it != NONE).count();
        let weight = |target: &u16| if *target == NONE { 0.0 } else { 1.0 / n_predicted as f32 };
        Tokens {
            inputs: integers(inputs, shape, device),
            targets: integers(targets, shape, device),
            weights: sent(TensorData::new(targets.iter().map(weight).collect(), shape), device),
            sight: self.sight(range, shape, device),
        }
    }

    /// Returns where the samples of some rows lie, all of which begin and end at positions of these.
    fn sight(&self, positions: Range<usize>, shape: [usize; 2], device: &Device) -> Sight {
        let segments = self.segments.as_ref().map(|it| &it[positions.clone()]);
        let (inputs, mut samples) = (&self.inputs[positions], Vec::new());
        for (row, start) in inputs.chunks(shape[1]).zip((0..).step_by(shape[1])) {
            let n_real = row.iter().position(|it| *it == NONE).unwrap_or(row.len());
            match segments.map(|it| &it[start..start + n_real]) {
                None => samples.push(start..start + n_real),
                Some(segments) => {
                    let mut end = start;
                    samples.extend(segments.chunk_by(|a, b| a == b).map(|sample| {
                        end += sample.len();
                        end - sample.len()..end
                    }));
                }
            }
        }
        Sight::new(shape, samples.into(), segments.map(|it| integers(it, shape, device)))
    }
}

impl Tokens {
    /// Returns tokens of this shape, of which none is padding; where they are packed, each row is one sample.
    pub(crate) fn blank(shape: StepShape, is_packed: bool, device: &Device) -> Self {
        let shape = [shape.samples as usize, shape.edge() as usize];
        let integers = || Tensor::zeros(shape, device);
        let rows = Sight::of_rows(shape);
        let sight = if is_packed { rows.told_apart(integers()) } else { rows };
        Self { inputs: integers(), targets: integers(), weights: Tensor::ones(shape, device), sight }
    }
}

/// What is none becomes a token, since the model has a row for tokens only.
fn integers(tokens: &[u16], shape: [usize; 2], device: &Device) -> Tensor<2, Int> {
    let token = |it: &u16| i32::from(if *it == NONE { BOUNDARY } else { *it });
    sent(TensorData::new(tokens.iter().map(token).collect(), shape), device)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(tokens: Tensor<2, Int>) -> Vec<i64> {
        tokens.into_data().convert::<i64>().try_into_vec().unwrap()
    }

    fn whole(tokens: &[u16]) -> Sample<'_> {
        Sample { tokens, n_repeated: 0 }
    }

    /// A buffer of padded samples.
    fn padded(buffer: &mut TokenBuffer, edge: u32, samples: &[&[u16]]) {
        buffer.push(edge, samples.iter().map(|it| [whole(it)]));
    }

    #[test]
    fn what_is_repeated_is_seen_and_weighs_nothing() {
        let mut buffer = TokenBuffer::with_capacity(StepShape::new(1, 7), true);
        let repeating = Sample { tokens: &[1, 2, 3, 4], n_repeated: 2 };
        buffer.push(7, [[whole(&[8, 9, 1]), repeating]].into_iter());
        let Tokens { inputs, targets, weights, sight } = buffer.tokens(&(0..1), &Device::flex());
        assert_eq!((ints(inputs), ints(targets)), (vec![8, 9, 1, 2, 3, 0, 0], vec![9, 1, 0, 0, 4, 0, 0]));
        let third = 1.0 / 3.0;
        assert_eq!(weights.into_data().try_into_vec::<f32>().unwrap(), [third, third, 0.0, 0.0, third, 0.0, 0.0]);
        assert_eq!((sight.samples(), ints(sight.segments().unwrap())), (&[0..2, 2..5][..], vec![1, 1, 2, 2, 2, 0, 0]));
    }

    #[test]
    fn samples_are_padded_to_the_edge_of_their_part() {
        let mut buffer = TokenBuffer::with_capacity(StepShape::new(2, 5), false);
        padded(&mut buffer, 3, &[&[1, 2, 3, 4], &[5, 6]]);
        padded(&mut buffer, 4, &[&[7, 8, 9]]);
        let Tokens { inputs, targets, weights, sight } = buffer.tokens(&(0..2), &Device::flex());
        assert_eq!((ints(inputs), ints(targets)), (vec![1, 2, 3, 5, 0, 0], vec![2, 3, 4, 6, 0, 0]));
        assert_eq!(weights.into_data().try_into_vec::<f32>().unwrap(), [0.25, 0.25, 0.25, 0.25, 0.0, 0.0]);
        assert!(sight.segments().is_none());
        assert_eq!(sight.samples(), [0..3, 3..4]);
        let Tokens { inputs, targets, weights, .. } = buffer.tokens(&(2..3), &Device::flex());
        assert_eq!((ints(inputs), ints(targets)), (vec![7, 8, 0, 0], vec![8, 9, 0, 0]));
        assert_eq!(weights.into_data().try_into_vec::<f32>().unwrap(), [0.5, 0.5, 0.0, 0.0]);
    }

    #[test]
    fn packed_samples_lie_one_behind_the_other_and_are_told_apart() {
        let mut buffer = TokenBuffer::with_capacity(StepShape::new(2, 4), true);
        buffer.push(4, [vec![whole(&[1, 2, 3]), whole(&[4, 5])], vec![whole(&[6, 7])]].into_iter());
        let Tokens { inputs, targets, weights, sight } = buffer.tokens(&(0..2), &Device::flex());
        assert_eq!((ints(inputs), ints(targets)), (vec![1, 2, 4, 0, 6, 0, 0, 0], vec![2, 3, 5, 0, 7, 0, 0, 0]));
        assert_eq!(ints(sight.segments().unwrap()), [1, 1, 2, 0, 1, 0, 0, 0]);
        assert_eq!(sight.samples(), [0..2, 2..3, 4..5]);
        assert_eq!(buffer.tokens(&(1..2), &Device::flex()).sight.samples().first(), Some(&(0..1)));
        let weights = weights.into_data().try_into_vec::<f32>().unwrap();
        assert_eq!(weights, [0.25, 0.25, 0.25, 0.0, 0.25, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn nothing_is_reallocated_after_construction() {
        let mut buffer = TokenBuffer::with_capacity(StepShape::new(2, 6), true);
        let blocks = |it: &TokenBuffer| {
            let segments = it.segments.as_ref().unwrap();
            [&it.inputs, &it.targets, segments].map(|it| (it.as_ptr().addr(), it.capacity()))
        };
        let before = blocks(&buffer);
        for (edge, n) in [(6, 2), (1, 12), (4, 3), (12, 1)] {
            buffer.clear();
            padded(&mut buffer, edge, &vec![&[1, 2][..]; n]);
            assert_eq!(blocks(&buffer), before);
        }
    }

    #[test]
    #[should_panic(expected = "rows of one part")]
    fn rows_of_two_parts_make_no_batch() {
        let mut buffer = TokenBuffer::with_capacity(StepShape::new(2, 6), false);
        padded(&mut buffer, 3, &[&[1, 2]]);
        padded(&mut buffer, 4, &[&[1, 2]]);
        buffer.tokens(&(0..2), &Device::flex());
    }
}
