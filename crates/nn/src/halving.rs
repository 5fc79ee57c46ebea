//! A convolution of 3 × 3 that halves height and width, as one matrix product for each image.
//!
//! Pixels of even and odd rows and columns are laid apart first, so that a channel has four planes. What lies at one of nine places
//! around each pixel that is looked at is one of these, moved by a row, a pixel, both or neither: it is copied in runs as long as
//! a plane, and gradients are added so.

use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::Shape;

use crate::convolution::{Gradients, Sizes};
use crate::numbers::tensor;
use crate::rows::{self, sum};

/// One of the nine places around a pixel, counted from above and from the left.
#[derive(Clone, Copy)]
struct Place {
    x: usize,
    y: usize,
}

impl Sizes {
    /// Pixels of an image.
    fn image(self) -> usize {
        self.channels * self.height * self.width
    }

    /// Height and width of what is made.
    fn halves(self) -> [usize; 2] {
        [self.height, self.width].map(|it| it.div_ceil(2))
    }

    /// Pixels of what is made, of one channel.
    fn half_plane(self) -> usize {
        self.halves().into_iter().product()
    }

    /// Room for the planes of all channels of an image, 0 where one has fewer rows or columns than others.
    fn planes(self) -> Vec<f32> {
        vec![0.0; 4 * self.channels * self.half_plane()]
    }

    /// Room for what lies around each pixel.
    fn surroundings(self) -> FlexTensor {
        let shape = Shape::from(vec![9 * self.channels, self.half_plane()]);
        tensor(vec![0.0; shape.num_elements()], &shape)
    }

    /// Returns a weight as a matrix, with a row for each channel that is made.
    fn matrix_of_rows(self, weight: &FlexTensor) -> FlexTensor {
        let weight: &[f32] = weight.storage();
        tensor(weight.to_vec(), &Shape::from(vec![self.channels_out, 9 * self.channels]))
    }

    /// Each channel with each place around a pixel, in the order of a weight.
    fn around(self) -> impl Iterator<Item = (usize, Place)> {
        (0..9 * self.channels).map(|at| (at / 9, Place { x: at % 3, y: at / 3 % 3 }))
    }

    /// Where the plane lies that a channel has at a place.
    fn start(self, channel: usize, Place { x, y }: Place) -> usize {
        ((channel * 2 + usize::from(y != 1)) * 2 + usize::from(x != 1)) * self.half_plane()
    }

    /// How far on a plane lies at a place.
    fn moved(self, Place { x, y }: Place) -> usize {
        usize::from(y == 0) * self.halves()[1] + usize::from(x == 0)
    }

    /// Clears what lies beyond the upper and the left border.
    fn clear_borders(self, Place { x, y }: Place, plane: &mut [f32]) {
        let width = self.halves()[1];
        if y == 0 {
            plane[..width].fill(0.0);
        }
        if x == 0 {
            plane.iter_mut().step_by(width).for_each(|it| *it = 0.0);
        }
    }

    /// Each row of an image, as its place there and that of its even pixels among the planes; its odd ones are a plane further.
    fn rows(self) -> impl Iterator<Item = (usize, usize)> {
        let (plane, width) = (self.half_plane(), self.halves()[1]);
        let of = move |at: usize| {
            let (channel, y) = (at / self.height, at % self.height);
            (at * self.width, (channel * 2 + y % 2) * 2 * plane + y / 2 * width)
        };
        (0..self.channels * self.height).map(of)
    }
}

/// Convolves images, padded with one row or column of zeros at each side, and takes every second pixel of every second row.
///
/// # Shapes
///
/// - `x`: `[batch_size, channels, height, width]`
/// - `weight`: `[channels_out, channels, 3, 3]`
/// - `bias`: `[channels_out]`
/// - output: `[batch_size, channels_out, height / 2, width / 2]`, rounded up
pub(crate) fn forward(x: &FlexTensor, weight: &FlexTensor, bias: &FlexTensor) -> FlexTensor {
    let [x, weight, bias] = [x, weight, bias].map(FlexTensor::to_contiguous);
    let sizes = Sizes::of(&x, &weight);
    let (plane, [height, width], matrix) = (sizes.half_plane(), sizes.halves(), sizes.matrix_of_rows(&weight));
    let (x, bias): (&[f32], &[f32]) = (x.storage(), bias.storage());
    let mut made = Vec::with_capacity(sizes.n * sizes.channels_out * plane);
    let (mut planes, mut columns) = (sizes.planes(), sizes.surroundings());
    for image in x.chunks_exact(sizes.image()) {
        split(image, sizes, &mut planes);
        gather(&planes, sizes, columns.storage_mut());
        let product = Flex::float_matmul(matrix.clone(), columns.clone());
        let product: &[f32] = product.storage();
        for (plane, bias) in product.chunks_exact(plane).zip(bias) {
            made.extend(plane.iter().map(|it| it + bias));
        }
    }
    tensor(made, &Shape::from(vec![sizes.n, sizes.channels_out, height, width]))
}

/// Returns the gradients of what [`forward`] has made.
pub(crate) fn backward(x: &FlexTensor, weight: &FlexTensor, gradient: &FlexTensor, of_x: bool) -> Gradients {
    let [x, weight, gradient] = [x, weight, gradient].map(FlexTensor::to_contiguous);
    let sizes = Sizes::of(&x, &weight);
    let Sizes { n, channels, channels_out, height, width } = sizes;
    let (plane, matrix) = (sizes.half_plane(), sizes.matrix_of_rows(&weight).transpose(0, 1));
    let (x, gradient): (&[f32], &[f32]) = (x.storage(), gradient.storage());
    let mut by_x = vec![0.0; if of_x { x.len() } else { 0 }];
    let mut by_bias = vec![0.0; channels_out];
    let shape = Shape::from(vec![channels_out, 9 * channels]);
    let mut by_matrix = tensor(vec![0.0; shape.num_elements()], &shape);
    let shape = Shape::from(vec![channels_out, plane]);
    let mut of_image = tensor(vec![0.0; shape.num_elements()], &shape);
    let (mut planes, mut columns) = (sizes.planes(), sizes.surroundings());
    for (at, gradient) in gradient.chunks_exact(channels_out * plane).enumerate() {
        let image = at * sizes.image()..(at + 1) * sizes.image();
        split(&x[image.clone()], sizes, &mut planes);
        gather(&planes, sizes, columns.storage_mut());
        for (by_bias, plane) in by_bias.iter_mut().zip(gradient.chunks_exact(plane)) {
            *by_bias += sum(plane.len(), |at| plane[at]);
        }
        of_image.storage_mut::<f32>().copy_from_slice(gradient);
        let product = Flex::float_matmul(of_image.clone(), columns.clone().transpose(0, 1));
        by_matrix = Flex::float_add(by_matrix, product);
        if of_x {
            let mut product = Flex::float_matmul(matrix.clone(), of_image.clone());
            scatter(product.storage_mut(), sizes, &mut planes);
            join(&planes, sizes, &mut by_x[image]);
        }
    }
    let by_matrix: &[f32] = by_matrix.storage();
    Gradients {
        x: of_x.then(|| tensor(by_x, &Shape::from(vec![n, channels, height, width]))),
        weight: tensor(by_matrix.to_vec(), &Shape::from(vec![channels_out, channels, 3, 3])),
        bias: tensor(by_bias, &Shape::from(vec![channels_out])),
    }
}

/// Lays the pixels of an image into planes.
fn split(image: &[f32], sizes: Sizes, planes: &mut [f32]) {
    let (pairs, plane) = (sizes.width / 2, sizes.half_plane());
    if sizes.height % 2 + sizes.width % 2 > 0 {
        planes.fill(0.0);
    }
    for (row, even) in sizes.rows() {
        let (row, (evens, odds)) = (&image[row..row + sizes.width], planes[even..].split_at_mut(plane));
        for ((pair, even), odd) in row.chunks_exact(2).zip(&mut *evens).zip(odds) {
            (*even, *odd) = (pair[0], pair[1]);
        }
        row[2 * pairs..].iter().for_each(|it| evens[pairs] = *it);
    }
}

/// Lays planes into an image: what [`split`] has done, undone.
fn join(planes: &[f32], sizes: Sizes, image: &mut [f32]) {
    let (pairs, plane) = (sizes.width / 2, sizes.half_plane());
    for (row, even) in sizes.rows() {
        let (row, (evens, odds)) = (&mut image[row..row + sizes.width], planes[even..].split_at(plane));
        for ((pair, even), odd) in row.chunks_exact_mut(2).zip(evens).zip(odds) {
            (pair[0], pair[1]) = (*even, *odd);
        }
        row[2 * pairs..].iter_mut().for_each(|it| *it = evens[pairs]);
    }
}

/// Makes a row for each channel and each place around a pixel.
fn gather(planes: &[f32], sizes: Sizes, columns: &mut [f32]) {
    let plane = sizes.half_plane();
    for ((channel, place), into) in sizes.around().zip(columns.chunks_exact_mut(plane)) {
        let (from, moved) = (&planes[sizes.start(channel, place)..][..plane], sizes.moved(place));
        if moved < plane {
            into[moved..].copy_from_slice(&from[..plane - moved]);
        }
        sizes.clear_borders(place, into);
    }
}

/// Adds the rows that [`gather`] makes to where they came from.
fn scatter(columns: &mut [f32], sizes: Sizes, planes: &mut [f32]) {
    let plane = sizes.half_plane();
    planes.fill(0.0);
    for ((channel, place), from) in sizes.around().zip(columns.chunks_exact_mut(plane)) {
        sizes.clear_borders(place, from);
        let moved = sizes.moved(place).min(plane);
        rows::wide(rows::Add(&from[moved..], 1.0, &mut planes[sizes.start(channel, place)..][..plane - moved]));
    }
}
