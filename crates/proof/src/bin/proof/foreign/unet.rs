//! An encoder and a decoder with skips between them.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig, ConvTranspose2d, ConvTranspose2dConfig};
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{GroupNorm, GroupNormConfig, PaddingConfig2d};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};

use super::Foreign;

/// Channels of the three levels.
const WIDTHS: [usize; 3] = [12, 24, 48];

/// Three levels, each with two convolutions on the way down and on the way up; restores its input.
///
/// # Sources
///
/// Ronneberger, Fischer and Brox, "U-Net", MICCAI 2015.
#[derive(Module, Debug)]
pub(crate) struct UNet {
    down: Vec<Twice>,
    pool: MaxPool2d,
    bottom: Twice,
    rise: Vec<ConvTranspose2d>,
    up: Vec<Twice>,
    head: Conv2d,
}

#[derive(Module, Debug)]
struct Twice {
    first: Conv2d,
    first_norm: GroupNorm,
    second: Conv2d,
    second_norm: GroupNorm,
}

impl Twice {
    fn new(from: usize, to: usize, device: &Device) -> Self {
        let norm = || GroupNormConfig::new(4, to).init(device);
        Self {
            first: conv(from, to, 3, device),
            first_norm: norm(),
            second: conv(to, to, 3, device),
            second_norm: norm(),
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let x = relu(self.first_norm.forward(self.first.forward(x)));
        relu(self.second_norm.forward(self.second.forward(x)))
    }
}

fn conv(from: usize, to: usize, kernel: usize, device: &Device) -> Conv2d {
    Conv2dConfig::new([from, to], [kernel, kernel]).with_padding(PaddingConfig2d::Same).init(device)
}

impl Foreign for UNet {
    const NAME: &'static str = "unet";

    fn init(device: &Device) -> Self {
        let [a, b, c] = WIDTHS;
        let rise = |from, to| ConvTranspose2dConfig::new([from, to], [2, 2]).with_stride([2, 2]).init(device);
        Self {
            down: vec![Twice::new(3, a, device), Twice::new(a, b, device)],
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            bottom: Twice::new(b, c, device),
            rise: vec![rise(c, b), rise(b, a)],
            up: vec![Twice::new(2 * b, b, device), Twice::new(2 * a, a, device)],
            head: conv(a, 3, 1, device),
        }
    }

    fn sample(edge: usize) -> Vec<usize> {
        vec![3, edge, edge]
    }

    fn outputs(&self, samples: Tensor<2>, edge: usize) -> Tensor<1> {
        self.forward(images(samples, edge)).flatten(0, 3)
    }

    fn loss(&self, samples: Tensor<2>, edge: usize) -> Tensor<1> {
        let images = images(samples, edge);
        (self.forward(images.clone()) - images).powi_scalar(2).mean()
    }
}

impl UNet {
    fn forward(&self, mut x: Tensor<4>) -> Tensor<4> {
        let mut skips = Vec::new();
        for level in &self.down {
            x = level.forward(x);
            skips.push(x.clone());
            x = self.pool.forward(x);
        }
        x = self.bottom.forward(x);
        for (rise, level) in self.rise.iter().zip(&self.up) {
            let skip = skips.pop().expect("a skip for each level");
            x = level.forward(Tensor::cat(vec![skip, rise.forward(x)], 1));
        }
        self.head.forward(x)
    }
}

/// Returns the samples as images of three channels.
pub(super) fn images(samples: Tensor<2>, edge: usize) -> Tensor<4> {
    let [n, _] = samples.dims();
    samples.reshape([n, 3, edge, edge])
}
