//! A convolution of 3 × 3 as one matrix product between a gather along rows and a sum over rows.
//!
//! The product takes what lies left of, at and right of each pixel to what is added above, at and below it: with `c` channels
//! to `o`, a matrix of `3 · o × 3 · c`. So a pixel is gathered three times instead of nine, in runs as long as an image, and the
//! gradients are two more products of the same matrices.

use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::Shape;

use crate::numbers::tensor;
use crate::rows::{self, sum};

/// The gradients of a convolution.
pub(crate) struct Gradients {
    /// Where it was asked for.
    pub(crate) x: Option<FlexTensor>,
    pub(crate) weight: FlexTensor,
    pub(crate) bias: FlexTensor,
}

/// The sizes of what is convolved.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) n: usize,
    pub(crate) channels: usize,
    pub(crate) channels_out: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
}

impl Sizes {
    pub(crate) fn of(x: &FlexTensor, weight: &FlexTensor) -> Self {
        let (x, weight) = (x.layout().shape(), weight.layout().shape());
        Self { n: x[0], channels: x[1], channels_out: weight[0], height: x[2], width: x[3] }
    }

    /// Pixels of an image.
    fn plane(self) -> usize {
        self.height * self.width
    }

    /// Room for what lies at each pixel of an image and at two neighbours, of so many channels.
    fn columns(self, channels: usize) -> FlexTensor {
        let shape = Shape::from(vec![3 * channels, self.plane()]);
        tensor(vec![0.0; shape.num_elements()], &shape)
    }

    /// Where each number of a weight lies in the matrix: `[place in the weight, place in the matrix]`.
    fn places(self) -> impl Iterator<Item = [usize; 2]> {
        let Self { channels, channels_out, .. } = self;
        (0..channels_out * channels * 9).map(move |at| {
            let (x, y, c, o) = (at % 3, at / 3 % 3, at / 9 % channels, at / 9 / channels);
            [at, (y * channels_out + o) * 3 * channels + x * channels + c]
        })
    }

    fn matrix(self, weight: &FlexTensor) -> FlexTensor {
        let weight = weight.to_contiguous();
        let (weight, mut matrix): (&[f32], _) = (weight.storage(), vec![0.0; 9 * self.channels * self.channels_out]);
        self.places().for_each(|[from, to]| matrix[to] = weight[from]);
        tensor(matrix, &Shape::from(vec![3 * self.channels_out, 3 * self.channels]))
    }
}

/// Convolves images, padded with zeros, one after the other.
///
/// So what is held beside them is of one image, however many there are.
///
/// # Shapes
///
/// - `x`: `[batch_size, channels, height, width]`
/// - `weight`: `[channels_out, channels, 3, 3]`
/// - `bias`: `[channels_out]`
/// - output: `[batch_size, channels_out, height, width]`
pub(crate) fn forward(x: &FlexTensor, weight: &FlexTensor, bias: &FlexTensor) -> FlexTensor {
    let sizes = Sizes::of(x, weight);
    let Sizes { n, channels, channels_out, height, width } = sizes;
    let (x, bias, matrix) = (x.to_contiguous(), bias.to_contiguous(), sizes.matrix(weight));
    let (x, bias): (&[f32], &[f32]) = (x.storage(), bias.storage());
    let (plane, mut made) = (sizes.plane(), Vec::with_capacity(n * channels_out * sizes.plane()));
    let mut gathered = sizes.columns(channels);
    for image in x.chunks_exact(channels * plane) {
        gather(image, sizes, gathered.storage_mut());
        let product = Flex::float_matmul(matrix.clone(), gathered.clone());
        let product: &[f32] = product.storage();
        for (channel, bias) in bias.iter().enumerate() {
            let of = |y: usize| &product[(y * channels_out + channel) * plane..][..plane];
            let begin = made.len();
            made.extend(of(1).iter().map(|it| it + bias));
            add(&mut made[begin + width..], of(0));
            add(&mut made[begin..], &of(2)[width..]);
        }
    }
    tensor(made, &Shape::from(vec![n, channels_out, height, width]))
}

/// Returns the gradients of what [`forward`] has made.
pub(crate) fn backward(x: &FlexTensor, weight: &FlexTensor, gradient: &FlexTensor, of_x: bool) -> Gradients {
    let sizes = Sizes::of(x, weight);
    let Sizes { n, channels, channels_out, height, width } = sizes;
    let (x, gradient, matrix) = (x.to_contiguous(), gradient.to_contiguous(), sizes.matrix(weight).transpose(0, 1));
    let (x, gradient): (&[f32], &[f32]) = (x.storage(), gradient.storage());
    let plane = sizes.plane();
    let mut by_x = Vec::with_capacity(if of_x { x.len() } else { 0 });
    let mut by_bias = vec![0.0; channels_out];
    let shape = Shape::from(vec![3 * channels_out, 3 * channels]);
    let mut by_matrix = tensor(vec![0.0; shape.num_elements()], &shape);
    let (mut gathered, mut spread) = (sizes.columns(channels), sizes.columns(channels_out));
    for (image, gradient) in x.chunks_exact(channels * plane).zip(gradient.chunks_exact(channels_out * plane)) {
        gather(image, sizes, gathered.storage_mut());
        spread_out(gradient, sizes, spread.storage_mut());
        for (by_bias, plane) in by_bias.iter_mut().zip(gradient.chunks_exact(plane)) {
            *by_bias += sum(plane.len(), |at| plane[at]);
        }
        let of_image = Flex::float_matmul(spread.clone(), gathered.clone().transpose(0, 1));
        by_matrix = Flex::float_add(by_matrix, of_image);
        if of_x {
            let mut product = Flex::float_matmul(matrix.clone(), spread.clone());
            sum_rows(product.storage_mut(), sizes, &mut by_x);
        }
    }
    let (mut by_weight, by_matrix): (_, &[f32]) = (vec![0.0; 9 * channels * channels_out], by_matrix.storage());
    sizes.places().for_each(|[to, from]| by_weight[to] = by_matrix[from]);
    Gradients {
        x: of_x.then(|| tensor(by_x, &Shape::from(vec![n, channels, height, width]))),
        weight: tensor(by_weight, &Shape::from(vec![channels_out, channels, 3, 3])),
        bias: tensor(by_bias, &Shape::from(vec![channels_out])),
    }
}

/// Makes rows of what lies left of, at and right of each pixel, for each channel.
fn gather(image: &[f32], sizes: Sizes, into: &mut [f32]) {
    let (plane, width) = (sizes.plane(), sizes.width);
    for (x, into) in into.chunks_exact_mut(image.len()).enumerate() {
        for (from, into) in image.chunks_exact(plane).zip(into.chunks_exact_mut(plane)) {
            match x {
                0 => {
                    into[1..].copy_from_slice(&from[..plane - 1]);
                    into.iter_mut().step_by(width).for_each(|it| *it = 0.0);
                }
                1 => into.copy_from_slice(from),
                _ => {
                    into[..plane - 1].copy_from_slice(&from[1..]);
                    into[width - 1..].iter_mut().step_by(width).for_each(|it| *it = 0.0);
                }
            }
        }
    }
}

/// Makes rows of the gradients of what a pixel adds below, at and above it, for each channel.
fn spread_out(gradient: &[f32], sizes: Sizes, into: &mut [f32]) {
    let (plane, width) = (sizes.plane(), sizes.width);
    for (y, into) in into.chunks_exact_mut(gradient.len()).enumerate() {
        for (from, into) in gradient.chunks_exact(plane).zip(into.chunks_exact_mut(plane)) {
            match y {
                0 => {
                    into[..plane - width].copy_from_slice(&from[width..]);
                    into[plane - width..].fill(0.0);
                }
                1 => into.copy_from_slice(from),
                _ => {
                    into[width..].copy_from_slice(&from[..plane - width]);
                    into[..width].fill(0.0);
                }
            }
        }
    }
}

/// Adds what each pixel contributes to that at its left, itself and that at its right, and appends the sums.
fn sum_rows(product: &mut [f32], sizes: Sizes, made: &mut Vec<f32>) {
    let (plane, width, third) = (sizes.plane(), sizes.width, product.len() / 3);
    // Beyond the borders of a row there is nothing to contribute to.
    product[..third].iter_mut().step_by(width).for_each(|it| *it = 0.0);
    product[2 * third + width - 1..].iter_mut().step_by(width).for_each(|it| *it = 0.0);
    for start in (0..third).step_by(plane) {
        let of = |x: usize| &product[x * third + start..][..plane];
        let begin = made.len();
        made.extend_from_slice(of(1));
        add(&mut made[begin..], &of(0)[1..]);
        add(&mut made[begin + 1..], of(2));
    }
}

/// Adds as many numbers as both have.
fn add(to: &mut [f32], from: &[f32]) {
    rows::wide(rows::Add(from, 1.0, to));
}
