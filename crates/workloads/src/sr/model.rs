//! A small EDSR.

use burn::module::{Initializer, Module};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{PaddingConfig2d, PixelShuffle, PixelShuffleConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};
use plimsoll_nn::conv2d;

use super::bicubic::upsample_bicubic;

/// How many times the sides of the output are those of the input.
pub const SCALE: u32 = 2;

/// Size of an [`Edsr`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdsrConfig {
    /// Feature channels.
    pub channels: usize,
    /// Residual blocks.
    pub blocks: u32,
}

/// Super-resolution by two: residual blocks between two convolutions, pixel shuffle, and a global skip over bicubic
/// upsampling.
///
/// The last convolution starts at zero, so an untrained model *is* bicubic upsampling.
///
/// # Sources
///
/// Lim et al., "Enhanced Deep Residual Networks for Single Image Super-Resolution", CVPRW 2017.
#[derive(Module, Debug)]
pub struct Edsr {
    head: Conv2d,
    blocks: Vec<ResidualBlock>,
    tail: Conv2d,
    shuffle: PixelShuffle,
}

#[derive(Module, Debug)]
struct ResidualBlock {
    first: Conv2d,
    second: Conv2d,
}

impl EdsrConfig {
    /// Creates a model on a device.
    pub fn init(&self, device: &Device) -> Edsr {
        let c = self.channels;
        let tail = conv(c, 3 * (SCALE * SCALE) as usize).with_initializer(Initializer::Zeros);
        Edsr {
            head: conv(3, c).init(device),
            blocks: (0..self.blocks)
                .map(|_| ResidualBlock { first: conv(c, c).init(device), second: conv(c, c).init(device) })
                .collect(),
            tail: tail.init(device),
            shuffle: PixelShuffleConfig::new(SCALE as usize).init(),
        }
    }

    /// How many input pixels away from an output pixel can still change it.
    pub fn receptive_radius(&self) -> u32 {
        2 * self.blocks + 2
    }
}

fn conv(channels_in: usize, channels_out: usize) -> Conv2dConfig {
    Conv2dConfig::new([channels_in, channels_out], [3, 3]).with_padding(PaddingConfig2d::Same)
}

impl Edsr {
    /// Upsamples images with values around 0 to 1.
    ///
    /// # Shapes
    ///
    /// - `images`: `[batch_size, 3, height, width]`
    /// - output: `[batch_size, 3, 2 · height, 2 · width]`
    pub fn forward(&self, images: Tensor<4>) -> Tensor<4> {
        let skip = upsample_bicubic(images.clone());
        let features = conv2d(&self.head, images.cast(self.head.weight.dtype()));
        let body = self.blocks.iter().fold(features.clone(), |x, block| block.forward(x));
        self.shuffle.forward(conv2d(&self.tail, body + features)).cast(skip.dtype()) + skip
    }
}

impl ResidualBlock {
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let residual = conv2d(&self.second, relu(conv2d(&self.first, x.clone())));
        x + residual
    }
}
