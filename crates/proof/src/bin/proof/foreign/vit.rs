//! A vision transformer with a learned table of positions.

use burn::module::{Initializer, Module, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use plimsoll_types::Features;

use super::Foreign;
use super::normalised::first_class;
use super::unet::images;

/// Pixels along the side of a patch.
const PATCH: usize = 8;

/// Patches along the side of the largest image: the table of positions has a row for each patch of it.
const MOST_PATCHES: usize = 12;

const WIDTH: usize = 32;
const N_CLASSES: usize = 10;

/// Patches of an image, a place for each, attention blocks and a head.
///
/// # Sources
///
/// Dosovitskiy et al., "An Image is Worth 16x16 Words", ICLR 2021.
#[derive(Module, Debug)]
pub(crate) struct VisionTransformer {
    patches: Conv2d,
    positions: Param<Tensor<2>>,
    encoder: TransformerEncoder,
    head: Linear,
}

impl Foreign for VisionTransformer {
    const NAME: &'static str = "vit";

    fn init(device: &Device) -> Self {
        let patches = Conv2dConfig::new([3, WIDTH], [PATCH, PATCH]).with_stride([PATCH, PATCH]);
        let encoder = TransformerEncoderConfig::new(WIDTH, 2 * WIDTH, 4, 2).with_dropout(0.0).with_norm_first(true);
        Self {
            patches: patches.init(device),
            positions: Initializer::Normal { mean: 0.0, std: 0.02 }.init([MOST_PATCHES * MOST_PATCHES, WIDTH], device),
            encoder: encoder.init(device),
            head: LinearConfig::new(WIDTH, N_CLASSES).init(device),
        }
    }

    /// Patches are planes, and attention is over pairs of patches.
    fn features() -> Features {
        const MONOMIALS: [&[u8]; 6] = [&[0, 0], &[0, 1], &[0, 2], &[1, 0], &[1, 2], &[1, 4]];
        Features::try_new(&MONOMIALS).unwrap_or(Features::complete(1))
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

impl VisionTransformer {
    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let patches: Tensor<3> = self.patches.forward(images).flatten(2, 3);
        let patches = patches.swap_dims(1, 2);
        let [_, n_patches, _] = patches.dims();
        let placed = patches + self.positions.val().narrow(0, 0, n_patches).unsqueeze();
        let seen = self.encoder.forward(TransformerEncoderInput::new(placed));
        self.head.forward(seen.mean_dim(1).squeeze_dim(1))
    }
}
