//! Attention of positions to those before them, a run of positions at a time.
//!
//! The scores are of a few rows at a time, up to the last position that these see, and none of them is kept: the way back makes
//! them again. So memory grows with the length of a run and not with its square, what lies after a position costs nothing, and
//! neither does what lies in another run.

use std::ops::Range;

use burn::backend::Flex;
use burn::backend::flex::{FlexTensor, Layout};
use burn::backend::ops::FloatTensorOps;
use burn::tensor::Shape;

use crate::numbers::tensor;
use crate::{Runs, rows};

/// Rows of scores that are made at a time.
const BLOCK: usize = 64;

/// The gradients of an attention.
pub(crate) struct Gradients {
    pub(crate) query: FlexTensor,
    pub(crate) key: FlexTensor,
    pub(crate) value: FlexTensor,
}

/// Queries, keys and values: `[positions, width]`, with the features of a head side by side.
pub(crate) struct Parts {
    query: FlexTensor,
    key: FlexTensor,
    value: FlexTensor,
    heads: usize,
    width: usize,
}

impl Parts {
    pub(crate) fn new([query, key, value]: [FlexTensor; 3], heads: usize) -> Self {
        let [query, key, value] = [query, key, value].map(|it| it.to_contiguous());
        let width = query.layout().shape()[1];
        Self { query, key, value, heads, width }
    }

    fn head_width(&self) -> usize {
        self.width / self.heads
    }

    fn scale(&self) -> f32 {
        1.0 / (self.head_width() as f32).sqrt()
    }

    /// Looks at some positions, head by head: `[heads, positions, width / heads]`, or the last two the other way round.
    fn look(&self, of: &FlexTensor, at: &Range<usize>, is_turned: bool) -> FlexTensor {
        let (head, strides) = (self.head_width(), [self.width, 1].map(usize::cast_signed));
        let [rows, columns] = if is_turned { [head, at.len()] } else { [at.len(), head] };
        let [down, across] = if is_turned { [strides[1], strides[0]] } else { strides };
        let shape = Shape::from(vec![self.heads, rows, columns]);
        let layout = Layout::new(shape, vec![head.cast_signed(), down, across], at.start * self.width);
        of.clone().with_layout(layout)
    }

    /// Returns what some positions of a run take of each up to the last of them: `[heads, rows.len(), seen.len()]`.
    fn shares(&self, rows: &Range<usize>, seen: &Range<usize>, slopes: &[f32]) -> FlexTensor {
        let (query, key) = (self.look(&self.query, rows, false), self.look(&self.key, seen, true));
        let mut scores = Flex::float_matmul(query, key);
        let sizes = [rows.len(), seen.len()];
        rows::wide(rows::Attend(scores.storage_mut(), rows.start - seen.start, sizes, slopes, self.scale()));
        scores
    }

    /// Adds what lies head by head to some positions of rows.
    fn add(&self, from: &FlexTensor, at: usize, scale: f32, into: &mut [f32]) {
        let (head, from): (_, &[f32]) = (self.head_width(), from.storage());
        let n = from.len() / self.width;
        for (of_head, from) in from.chunks_exact(n * head).enumerate() {
            let into = &mut into[at * self.width..][..n * self.width];
            rows::wide(rows::AddRows(from, head, scale, into, [of_head * head, self.width]));
        }
    }

    fn zeros(&self) -> Vec<f32> {
        vec![0.0; self.query.layout().shape().num_elements()]
    }

    fn made(&self, numbers: Vec<f32>) -> FlexTensor {
        tensor(numbers, self.query.layout().shape())
    }
}

/// Mixes the values that each position sees: `[positions, width]`.
pub(crate) fn forward(parts: &Parts, runs: &Runs) -> FlexTensor {
    let mut made = parts.zeros();
    for (rows, seen) in blocks(runs) {
        let shares = parts.shares(&rows, &seen, &runs.slopes);
        let mixed = Flex::float_matmul(shares, parts.look(&parts.value, &seen, false));
        parts.add(&mixed, rows.start, 1.0, &mut made);
    }
    parts.made(made)
}

/// Returns the gradients of what [`forward`] has made.
pub(crate) fn backward(parts: &Parts, runs: &Runs, gradient: &FlexTensor) -> Gradients {
    let gradient = gradient.to_contiguous();
    let [mut query, mut key, mut value] = [(); 3].map(|()| parts.zeros());
    for (rows, seen) in blocks(runs) {
        let shares = parts.shares(&rows, &seen, &runs.slopes);
        let of_mixed = parts.look(&gradient, &rows, false);
        let of_value = Flex::float_matmul(shares.transpose(1, 2), of_mixed.clone());
        parts.add(&of_value, seen.start, 1.0, &mut value);
        let mut of_scores = Flex::float_matmul(of_mixed, parts.look(&parts.value, &seen, true));
        rows::wide(rows::SoftmaxBackward(seen.len(), shares.storage(), of_scores.storage_mut()));
        let of_key = Flex::float_matmul(of_scores.transpose(1, 2), parts.look(&parts.query, &rows, false));
        parts.add(&of_key, seen.start, parts.scale(), &mut key);
        let of_query = Flex::float_matmul(of_scores, parts.look(&parts.key, &seen, false));
        parts.add(&of_query, rows.start, parts.scale(), &mut query);
    }
    let [query, key, value] = [query, key, value].map(|it| parts.made(it));
    Gradients { query, key, value }
}

/// Divides the runs into a few rows each, with all that these see.
fn blocks(runs: &Runs) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    runs.of.iter().flat_map(|run| {
        run.clone().step_by(BLOCK).map(|start| {
            let end = run.end.min(start + BLOCK);
            (start..end, run.start..end)
        })
    })
}
