//! Convolutions with batch normalisation.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::{AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Int, Tensor};

use super::Foreign;
use super::unet::images;

const N_CLASSES: usize = 10;

/// A small residual classifier.
///
/// # Sources
///
/// He et al., "Deep Residual Learning for Image Recognition", CVPR 2016.
#[derive(Module, Debug)]
pub(crate) struct NormalisedNet {
    stem: Normalised,
    stages: Vec<Stage>,
    pool: AdaptiveAvgPool2d,
    head: Linear,
}

#[derive(Module, Debug)]
struct Normalised {
    conv: Conv2d,
    norm: BatchNorm,
}

#[derive(Module, Debug)]
struct Stage {
    first: Normalised,
    second: Normalised,
    shortcut: Normalised,
}

impl Normalised {
    fn new(channels: [usize; 2], kernel: usize, stride: usize, device: &Device) -> Self {
        let padding = PaddingConfig2d::Explicit(kernel / 2, kernel / 2, kernel / 2, kernel / 2);
        let conv = Conv2dConfig::new(channels, [kernel, kernel]).with_stride([stride, stride]).with_padding(padding);
        Self { conv: conv.with_bias(false).init(device), norm: BatchNormConfig::new(channels[1]).init(device) }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.norm.forward(self.conv.forward(x))
    }
}

impl Stage {
    fn new([from, to]: [usize; 2], device: &Device) -> Self {
        Self {
            first: Normalised::new([from, to], 3, 2, device),
            second: Normalised::new([to, to], 3, 1, device),
            shortcut: Normalised::new([from, to], 1, 2, device),
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let inner = self.second.forward(relu(self.first.forward(x.clone())));
        relu(inner + self.shortcut.forward(x))
    }
}

impl Foreign for NormalisedNet {
    const NAME: &'static str = "batch-norm";

    fn init(device: &Device) -> Self {
        Self {
            stem: Normalised::new([3, 12], 3, 1, device),
            stages: vec![Stage::new([12, 24], device), Stage::new([24, 48], device)],
            pool: AdaptiveAvgPool2dConfig::new([1, 1]).init(),
            head: LinearConfig::new(48, N_CLASSES).init(device),
        }
    }

    fn sample(edge: usize) -> Vec<usize> {
        vec![3, edge, edge]
    }

    fn outputs(&self, samples: Tensor<2>, edge: usize) -> Tensor<1> {
        self.forward(images(samples, edge)).flatten(0, 1)
    }

    fn loss(&self, samples: Tensor<2>, edge: usize) -> Tensor<1> {
        first_class(self.forward(images(samples, edge)))
    }
}

impl NormalisedNet {
    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let stem = relu(self.stem.forward(images));
        let features = self.stages.iter().fold(stem, |x, stage| stage.forward(x));
        self.head.forward(self.pool.forward(features).flatten(1, 3))
    }
}

/// Returns the cross-entropy of scores, as if every sample were of the first class.
///
/// # Shapes
///
/// - `scores`: `[batch_size, n_classes]`
/// - output: `[1]`
pub(super) fn first_class(scores: Tensor<2>) -> Tensor<1> {
    let device = scores.device();
    let [n, _] = scores.dims();
    let classes = Tensor::<1, Int>::zeros([n], &device.clone().inner());
    CrossEntropyLossConfig::new().init(&device).forward(scores, classes)
}
