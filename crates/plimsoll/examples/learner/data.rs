//! Images that are drawn here, and their batches.

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataset::InMemDataset;
use burn::tensor::{Device, Int, Tensor, TensorData};

/// Pixels of an edge.
pub(crate) const EDGE: usize = 24;
/// A bar, one that stands, and a cross.
pub(crate) const SHAPES: usize = 3;

#[derive(Clone, Debug)]
pub(crate) struct Image {
    pixels: Vec<f32>,
    shape: usize,
}

/// Draws shapes of many sizes in many places, in noise.
pub(crate) fn images(n: usize, seed: u32) -> InMemDataset<Image> {
    let mut state = seed.wrapping_mul(2_654_435_761);
    let mut random = |below: u16| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f32::from(u16::try_from((state >> 16) % u32::from(below)).unwrap_or(0))
    };
    let mut image = |shape: usize| {
        let (x, y, size) = (8.0 + random(8), 8.0 + random(8), 3.0 + random(4));
        let is_bar = |along: f32, across: f32| along.abs() <= size && across.abs() <= 1.0;
        let inside = |dx: f32, dy: f32| match shape {
            0 => is_bar(dx, dy),
            1 => is_bar(dy, dx),
            _ => is_bar(dx, dy) || is_bar(dy, dx),
        };
        let at = |it: usize| f32::from(u16::try_from(it).unwrap_or(0));
        let pixel = |it: usize| {
            let brightness = if inside(at(it % EDGE) - x, at(it / EDGE) - y) { 0.7 } else { 0.0 };
            brightness + random(100) / 400.0
        };
        Image { pixels: (0..EDGE * EDGE).map(pixel).collect(), shape }
    };
    InMemDataset::new((0..n).map(|it| image(it % SHAPES)).collect())
}

#[derive(Clone, Debug)]
pub(crate) struct ImageBatch {
    pub(crate) images: Tensor<4>,
    pub(crate) shapes: Tensor<1, Int>,
}

#[derive(Clone)]
pub(crate) struct ImageBatcher;

impl Batcher<Image, ImageBatch> for ImageBatcher {
    fn batch(&self, items: Vec<Image>, device: &Device) -> ImageBatch {
        let pixels: Vec<f32> = items.iter().flat_map(|it| it.pixels.iter().copied()).collect();
        let shapes: Vec<i64> = items.iter().filter_map(|it| i64::try_from(it.shape).ok()).collect();
        ImageBatch {
            images: Tensor::from_data(TensorData::new(pixels, [items.len(), 1, EDGE, EDGE]), device),
            shapes: Tensor::from_data(TensorData::new(shapes, [items.len()]), device),
        }
    }
}
