//! A micro-batch on the device.

use std::ops::Range;

use burn::tensor::{Bool, DType, Device, Int, Tensor, TensorData};
use plimsoll_sampler::MixedBatch;
use plimsoll_train::sent;
use plimsoll_types::{Extent, StepShape};

use super::seen::Seen;
use super::sizes::{Padded, Sizes};
use super::source::SampleBuffer;
use super::standard::Standard;

/// Samples on the device.
///
/// # Shapes
///
/// `n` samples of `n_images` images, `n_words` token ids and `n_tasks` tasks:
///
/// - `pixels`: `[n · n_images, 3, side, side]`, each image with mean 0 and deviation 1, and 0 beside one that is smaller
/// - `seen`: which parts of the maps of each convolution are of an image; none where images are as large as their places
/// - `groups`: `[n, 2, n_images]`, what each image counts in the mean of its group
/// - `tokens`, `padding`: `[n, n_words]`
/// - `words`: `[n, 1, n_words]`, what each token counts in the mean of its text
/// - `targets`: `[n, n_outputs]`, the probabilities that the sample's task asks for, and 0 in the others
/// - `tasks`: `[n, n_tasks]`, 1 where the sample's task is
/// - `shares`: `[n, 1]`, samples of the step over those of the sample's task
#[derive(Debug)]
pub struct MixedTensors {
    pub(crate) pixels: Tensor<4>,
    pub(crate) seen: Vec<Seen>,
    pub(crate) groups: Tensor<3>,
    pub(crate) tokens: Tensor<2, Int>,
    pub(crate) padding: Tensor<2, Bool>,
    pub(crate) words: Tensor<3>,
    pub(crate) targets: Tensor<2>,
    pub(crate) tasks: Tensor<2>,
    pub(crate) shares: Tensor<2>,
    /// Tasks in the whole step.
    pub(crate) n_tasks: f32,
}

impl MixedTensors {
    /// Returns what the model is given in a number format; what its loss is computed from stays as it is.
    pub(crate) fn in_format(self, dtype: DType) -> Self {
        let Self { pixels, seen, groups, words, tasks, .. } = self;
        let [groups, words] = [groups, words].map(|it| it.cast(dtype));
        let seen = seen.into_iter().map(|it| it.in_format(dtype)).collect();
        Self { pixels: pixels.cast(dtype), seen, groups, words, tasks: tasks.cast(dtype), ..self }
    }

    /// Copies a range of a step's samples, all of one extent.
    ///
    /// `smoothing` is the part of the target that all outputs of a task share, right or wrong.
    pub(crate) fn of(
        buffer: &SampleBuffer,
        samples: Range<usize>,
        sizes: &Sizes,
        smoothing: f32,
        device: &Device,
    ) -> Self {
        let padded = padded(buffer.extents[samples.start], sizes);
        let mut host = Host::blank(samples.len(), padded, sizes, smoothing);
        let batch = buffer.mixed.batch();
        for (row, sample) in samples.enumerate() {
            host.copy(row, &batch, sample, buffer.standards(sample));
        }
        host.tensors(device)
    }

    /// Makes a batch of nothing on the device.
    pub(crate) fn blank(shape: StepShape, sizes: &Sizes, device: &Device) -> Self {
        let (n, Padded { images, words, side }) = (shape.samples as usize, padded(shape.extent(), sizes));
        Self {
            pixels: Tensor::zeros([n * images, 3, side, side], device),
            seen: if sizes.image.keeps_shape { Seen::blank(n * images, side, device) } else { Vec::new() },
            groups: Tensor::zeros([n, 2, images], device),
            tokens: Tensor::zeros([n, words], device),
            padding: Tensor::<2, Int>::zeros([n, words], device).bool(),
            words: Tensor::zeros([n, 1, words], device),
            targets: Tensor::zeros([n, sizes.n_outputs()], device),
            tasks: Tensor::zeros([n, sizes.outputs.len()], device),
            shares: Tensor::zeros([n, 1], device),
            n_tasks: 1.0,
        }
    }
}

/// Returns what each sample of a batch has: an edge that is a multiple may be beyond the longest text.
fn padded(extent: Extent, sizes: &Sizes) -> Padded {
    let padded = sizes.image.padded(extent);
    Padded { words: padded.words.min(sizes.words), ..padded }
}

/// The values of a batch on the host.
struct Host<'a> {
    n: usize,
    padded: Padded,
    sizes: &'a Sizes,
    smoothing: f32,
    pixels: Vec<f32>,
    /// Height and width of each image, 0 where there is none.
    image_sizes: Vec<[usize; 2]>,
    groups: Vec<f32>,
    tokens: Vec<u32>,
    padding: Vec<bool>,
    words: Vec<f32>,
    targets: Vec<f32>,
    tasks: Vec<f32>,
    shares: Vec<f32>,
    n_tasks: f32,
}

impl<'a> Host<'a> {
    fn blank(n: usize, padded: Padded, sizes: &'a Sizes, smoothing: f32) -> Self {
        let Padded { images, words, side } = padded;
        Self {
            n,
            padded,
            sizes,
            smoothing,
            pixels: Vec::with_capacity(n * images * 3 * side * side),
            image_sizes: Vec::with_capacity(n * images),
            groups: vec![0.0; n * 2 * images],
            tokens: Vec::with_capacity(n * words),
            padding: Vec::with_capacity(n * words),
            words: vec![0.0; n * words],
            targets: vec![0.0; n * sizes.n_outputs()],
            tasks: vec![0.0; n * sizes.outputs.len()],
            shares: vec![0.0; n],
            n_tasks: 1.0,
        }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small counts, and shares in f32")]
    fn copy(&mut self, row: usize, batch: &MixedBatch<'_>, sample: usize, standards: &[Standard]) {
        let Self { padded: Padded { images: n_images, words: n_words, .. }, sizes, .. } = *self;
        let (laid, task) = (batch.cell, batch.tasks[sample] as u16);
        let first_image = sample * laid.images as usize;
        for (at, by) in (first_image..first_image + n_images).zip(standards) {
            self.copy_image(batch, at, *by);
        }
        let [n_first, share, n_tasks] = *batch.metadata[3 * sample..].first_chunk().expect("three numbers a sample");
        let (n_first, n) = (n_first as usize, batch.lengths[sample].images as usize);
        let groups = &mut self.groups[row * 2 * n_images..][..2 * n_images];
        groups[..n_first].fill(1.0 / n_first as f32);
        groups[n_images + n_first..n_images + n].fill(1.0 / (n - n_first) as f32);
        let words = sample * laid.tokens as usize;
        self.tokens.extend_from_slice(&batch.tokens[words..][..n_words]);
        self.padding.extend(batch.attention_mask[words..][..n_words].iter().map(|is_real| !is_real));
        let n_real = batch.lengths[sample].tokens as usize;
        self.words[row * n_words..][..n_real].fill(1.0 / n_real as f32);
        let targets = &mut self.targets[row * sizes.n_outputs()..][sizes.outputs_of(task)];
        targets.fill(self.smoothing / targets.len() as f32);
        targets[batch.labels[sample] as usize] += 1.0 - self.smoothing;
        self.tasks[row * sizes.outputs.len() + usize::from(task)] = 1.0;
        (self.shares[row], self.n_tasks) = (share as f32, n_tasks as f32);
    }

    /// Copies an image on its new scale, with zeros beside it where it is smaller than its place.
    fn copy_image(&mut self, batch: &MixedBatch<'_>, at: usize, by: Standard) {
        let (side, laid) = (self.padded.side, [batch.cell.height, batch.cell.width].map(|it| it as usize));
        let own = batch.image_sizes[at].map(|it| it as usize);
        self.image_sizes.push(own);
        let [laid_height, laid_width] = laid;
        let planes = batch.pixels[at * 3 * laid_height * laid_width..].chunks_exact(laid_height * laid_width).take(3);
        for plane in planes {
            if laid == [side; 2] && (own == laid || own == [0; 2]) {
                by.standardise(plane, &mut self.pixels);
                continue;
            }
            let end = self.pixels.len() + side * side;
            for row in plane.chunks_exact(laid_width).take(own[0]) {
                let end = self.pixels.len() + side;
                by.standardise(&row[..own[1]], &mut self.pixels);
                self.pixels.resize(end, 0.0);
            }
            self.pixels.resize(end, 0.0);
        }
    }

    fn tensors(self, device: &Device) -> MixedTensors {
        let Self { n, padded: Padded { images, words, side }, sizes, .. } = self;
        let shaped = sizes.image.keeps_shape.then_some(&self.image_sizes);
        MixedTensors {
            pixels: sent(TensorData::new(self.pixels, [n * images, 3, side, side]), device),
            seen: shaped.map_or_else(Vec::new, |it| Seen::of(it, side, device)),
            groups: sent(TensorData::new(self.groups, [n, 2, images]), device),
            tokens: sent(TensorData::new(self.tokens, [n, words]), device),
            padding: sent(TensorData::new(self.padding, [n, words]), device),
            words: sent(TensorData::new(self.words, [n, 1, words]), device),
            targets: sent(TensorData::new(self.targets, [n, sizes.n_outputs()]), device),
            tasks: sent(TensorData::new(self.tasks, [n, sizes.outputs.len()]), device),
            shares: sent(TensorData::new(self.shares, [n, 1]), device),
            n_tasks: self.n_tasks,
        }
    }
}
