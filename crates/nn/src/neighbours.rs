//! Each position of a sequence with those before and after it, in runs of memory.

use std::ops::Range;

use burn::backend::flex::FlexTensor;
use burn::tensor::Shape;

use crate::numbers::tensor;
use crate::rows;

/// Where the numbers around each position lie in a sequence of so many, and where the first of them goes: what lies outside of the
/// sequence is left out.
fn runs(len: usize, width: usize, radius: usize) -> impl Iterator<Item = (Range<usize>, usize)> {
    let row = (2 * radius + 1) * width;
    (0..len / width).map(move |at| {
        let (start, end) = (at.saturating_sub(radius), (at + radius + 1) * width);
        (start * width..end.min(len), at * row + (start + radius - at) * width)
    })
}

/// Puts what lies up to `radius` positions before and after each of a sequence beside it, and zeros for what lies outside.
///
/// # Shapes
///
/// - `x`: `[batch_size, n, width]`
/// - output: `[batch_size, n, (2 · radius + 1) · width]`
pub(crate) fn forward(x: &FlexTensor, radius: usize) -> FlexTensor {
    let x = x.to_contiguous();
    let (dims, times) = (x.layout().shape().to_vec(), 2 * radius + 1);
    let (sequence, numbers): (_, &[f32]) = (dims[1] * dims[2], x.storage());
    let mut made = vec![0.0; numbers.len() * times];
    for (x, made) in numbers.chunks_exact(sequence).zip(made.chunks_exact_mut(sequence * times)) {
        for (from, to) in runs(sequence, dims[2], radius) {
            made[to..][..from.len()].copy_from_slice(&x[from]);
        }
    }
    tensor(made, &Shape::from(vec![dims[0], dims[1], dims[2] * times]))
}

/// Returns the gradient of what [`forward`] has made of sequences.
pub(crate) fn backward(gradient: &FlexTensor, radius: usize) -> FlexTensor {
    let gradient = gradient.to_contiguous();
    let (dims, times) = (gradient.layout().shape().to_vec(), 2 * radius + 1);
    let (width, numbers): (_, &[f32]) = (dims[2] / times, gradient.storage());
    let sequence = dims[1] * width;
    let mut by_x = vec![0.0; numbers.len() / times];
    for (by_x, gradient) in by_x.chunks_exact_mut(sequence).zip(numbers.chunks_exact(sequence * times)) {
        for (to, from) in runs(sequence, width, radius) {
            rows::wide(rows::Add(&gradient[from..][..to.len()], 1.0, &mut by_x[to]));
        }
    }
    tensor(by_x, &Shape::from(vec![dims[0], dims[1], width]))
}
