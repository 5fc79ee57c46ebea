//! The model: two encoders, the layer that fuses them, and a head for each task.

use burn::module::{Module, Param, ParamId};
use burn::nn::{Initializer, Linear, LinearConfig};
use burn::tensor::activation::{log_softmax, relu};
use burn::tensor::{DType, Device, Tensor};

use super::batch::MixedTensors;
use super::encoder::{ImageEncoder, TextEncoder};
use super::fusion_config::FusionConfig;
use super::sizes::Sizes;

/// Samples of one or more images and a text, seen through encoders that all tasks share.
///
/// The last layer that they share takes the sum of the two groups' means, the text, and the product of the text with
/// the difference of the means, which is what tells the order of a pair.
#[derive(Module, Debug)]
pub struct FusionModel {
    images: ImageEncoder,
    texts: TextEncoder,
    fusion: Linear,
    /// Zeros that are added to the weight of `fusion`, each for the samples of one task alone.
    probes: Vec<Param<Tensor<2>>>,
    heads: Vec<Linear>,
}

impl FusionConfig {
    /// Creates a model on a device; with probes where the gradients of the tasks are to be told apart.
    pub(crate) fn init(&self, sizes: &Sizes, n_ids: usize, has_probes: bool, device: &Device) -> FusionModel {
        let features = self.features;
        let probe = |_| Initializer::Zeros.init([3 * features, features], device);
        FusionModel {
            images: ImageEncoder::new(sizes.image, *self, device),
            texts: TextEncoder::new(n_ids, sizes.words, features, device),
            fusion: LinearConfig::new(3 * features, features).init(device),
            probes: if has_probes { sizes.outputs.iter().map(probe).collect() } else { Vec::new() },
            heads: sizes.outputs.iter().map(|n| LinearConfig::new(features, *n).init(device)).collect(),
        }
    }
}

impl FusionModel {
    /// Returns the cross-entropy of every sample in its own task, and 0 in the others.
    ///
    /// # Shapes
    ///
    /// - output: `[n, n_tasks]`
    pub(crate) fn losses(&self, batch: MixedTensors) -> Tensor<2> {
        let targets = batch.targets.clone();
        let mut start = 0;
        let loss = |outputs: Tensor<2>| {
            let end = start + outputs.dims()[1];
            let chosen = outputs * targets.clone().slice_dim(1, start..end);
            start = end;
            -chosen.sum_dim(1)
        };
        Tensor::cat(self.of_heads(batch).map(loss).collect(), 1)
    }

    /// Returns the logarithm of how probable each answer of each task is.
    ///
    /// # Shapes
    ///
    /// - output: `[n, n_outputs]`, one task after the other
    pub(crate) fn log_probabilities(&self, batch: MixedTensors) -> Tensor<2> {
        Tensor::cat(self.of_heads(batch).collect(), 1)
    }

    /// Returns the logarithm of how probable each answer of a task is, from one head after the other.
    fn of_heads(&self, batch: MixedTensors) -> impl Iterator<Item = Tensor<2>> {
        let fused = self.fused(batch);
        self.heads.iter().map(move |head| log_softmax(head.forward(fused.clone()).cast(DType::F32), 1))
    }

    /// Returns what all heads see, of shape `[n, features]`.
    fn fused(&self, batch: MixedTensors) -> Tensor<2> {
        let MixedTensors { pixels, seen, groups, tokens, padding, words, tasks, .. } =
            batch.in_format(self.fusion.weight.dtype());
        let [n, _, edge] = groups.dims();
        let images = self.images.forward(pixels, &seen);
        let features = images.dims()[1];
        let means = groups.matmul(images.reshape([n, edge, features]));
        let [first, second] = [0, 1].map(|group| means.clone().slice_dim(1, group..group + 1).squeeze_dim::<2>(1));
        let text = self.texts.forward(tokens, padding, words);
        let order = (first.clone() - second.clone()) * text.clone();
        let seen = Tensor::cat(vec![first + second, text, order], 1);
        let fused = self.fusion.forward(seen.clone());
        let of_task = |(task, probe): (usize, &Param<Tensor<2>>)| {
            (seen.clone() * tasks.clone().slice_dim(1, task..task + 1)).matmul(probe.val())
        };
        relu(self.probes.iter().enumerate().map(of_task).fold(fused, |sum, it| sum + it))
    }

    /// Returns the probes of the tasks.
    pub(crate) fn probes(&self) -> Vec<ParamId> {
        self.probes.iter().map(|probe| probe.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use burn::tensor::{Bool, Distribution};
    use plimsoll_train::{Draw, Job, Source};
    use plimsoll_types::{Extent, StepShape};

    use super::*;
    use crate::Room;
    use crate::multitask::{Multitask, MultitaskConfig, Samples, SamplesConfig};

    const EDGES: [u32; 2] = [7, 24];

    /// A job, its first samples of every task, and their batch.
    fn batch(device: &Device) -> (Multitask, MixedTensors) {
        let store = tempfile::tempdir().unwrap();
        let config = SamplesConfig::new(plimsoll_fixtures::dir().join("multitask"), Room::boundless(store.path()));
        let samples = Samples::read(&config).unwrap();
        let job = Multitask::new(MultitaskConfig::new(3), Arc::new(samples));
        let source = job.source();
        let ids: Vec<_> = (0..source.n_samples()).step_by(9).collect();
        let items: Vec<_> = ids.iter().map(|id| source.read(0, *id).unwrap()).collect();
        let n = u32::try_from(ids.len()).unwrap();
        let extent = Extent::try_new(&EDGES).unwrap();
        let mut buffer = source.buffer(StepShape::of(n, extent));
        source.collate(&Draw::of_extent(0, ids, extent), &items, &mut buffer).unwrap();
        let batch = job.batch(&buffer, 0..n as usize, device);
        (job, batch)
    }

    fn copy(batch: &MixedTensors) -> MixedTensors {
        let MixedTensors { pixels, seen, groups, tokens, padding, words, targets, tasks, shares, n_tasks } = batch;
        MixedTensors {
            pixels: pixels.clone(),
            seen: seen.clone(),
            groups: groups.clone(),
            tokens: tokens.clone(),
            padding: padding.clone(),
            words: words.clone(),
            targets: targets.clone(),
            tasks: tasks.clone(),
            shares: shares.clone(),
            n_tasks: *n_tasks,
        }
    }

    #[test]
    fn what_padding_holds_changes_no_loss() {
        let device = Device::flex();
        let (job, real) = batch(&device);
        device.seed(1);
        let model = job.init(&device);
        let [n, ..] = real.groups.dims();
        let mut other = copy(&real);
        let is_padding: Tensor<4, Bool> = real.groups.clone().sum_dim(1).equal_scalar(0.0).reshape([-1, 1, 1, 1]);
        let noise = Tensor::random(real.pixels.dims(), Distribution::Uniform(-9.0, 9.0), &device);
        other.pixels = other.pixels.mask_where(is_padding.clone().expand(real.pixels.dims()), noise);
        other.tokens = other.tokens.mask_fill(real.padding.clone(), 5);
        assert!(is_padding.int().sum().into_scalar::<i64>() > i64::try_from(n).unwrap(), "there is padding");
        let [real, other] =
            [real, other].map(|it| model.losses(it).sum_dim(1).into_data().iter::<f32>().collect::<Vec<_>>());
        let close = |(a, b): (&f32, &f32)| (a / b - 1.0).abs() < 1e-5;
        assert!(real.iter().zip(&other).all(close), "{real:?} {other:?}");
    }

    #[test]
    fn a_blank_batch_has_the_shapes_of_a_real_one() {
        let device = Device::flex();
        let (job, real) = batch(&device);
        let n = u32::try_from(real.groups.dims()[0]).unwrap();
        let blank = job.blank_batch(StepShape::of(n, Extent::try_new(&EDGES).unwrap()), &device);
        let shapes = |it: &MixedTensors| {
            let (pixels, groups, words) = (it.pixels.dims(), it.groups.dims(), it.words.dims());
            let flat = [&it.targets, &it.tasks, &it.shares].map(Tensor::dims);
            (pixels, groups, words, flat, it.tokens.dims(), it.padding.dims())
        };
        assert_eq!(shapes(&real), shapes(&blank));
        let loss = job.mean_loss(&job.init(&device), blank, &[1.0; 3]);
        assert!(loss.mean.into_scalar::<f32>().abs() < 1e-6, "and no loss that is no number");
    }
}
