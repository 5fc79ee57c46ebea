//! What all tasks see through.

use burn::module::{Module, Param};
use burn::nn::attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{
    Embedding, EmbeddingConfig, Initializer, LayerNorm, LayerNormConfig, Linear, LinearConfig, PaddingConfig2d,
};
use burn::tensor::activation::relu;
use burn::tensor::{Bool, Device, Int, Tensor};

/// Keeps the gradient finite where all features are 0.
const TINY: f32 = 1e-5;

/// Convolutions that halve the sides, and a layer over what is left of the image.
#[derive(Module, Debug)]
pub(crate) struct ImageEncoder {
    convolutions: Vec<Conv2d>,
    output: Linear,
}

impl ImageEncoder {
    pub(crate) fn new(size: usize, channels: usize, features: usize, device: &Device) -> Self {
        let widths = [3, channels, 2 * channels, 4 * channels];
        let convolution = |pair: &[usize]| {
            let config = Conv2dConfig::new([pair[0], pair[1]], [3, 3]).with_stride([2, 2]);
            config.with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1)).init(device)
        };
        let convolutions: Vec<_> = widths.windows(2).map(convolution).collect();
        let rest = convolutions.iter().fold(size, |rest, _| rest.div_ceil(2));
        let output = LinearConfig::new(4 * channels * rest * rest, features).init(device);
        Self { convolutions, output }
    }

    /// Returns features of equal size, so that no image of a group outweighs the others.
    ///
    /// # Shapes
    ///
    /// - `images`: `[n, 3, size, size]`
    /// - output: `[n, features]`, the mean of whose squares is 1
    pub(crate) fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let maps = self.convolutions.iter().fold(images, |x, convolution| relu(convolution.forward(x)));
        let features = self.output.forward(maps.flatten(1, 3));
        let size = (features.clone().powi_scalar(2).mean_dim(1) + TINY).sqrt();
        features / size
    }
}

/// Words and their places, one layer of attention, and the mean over the words.
#[derive(Module, Debug)]
pub(crate) struct TextEncoder {
    words: Embedding,
    places: Param<Tensor<2>>,
    norm_attention: LayerNorm,
    attention: MultiHeadAttention,
    norm_layers: LayerNorm,
    wide: Linear,
    narrow: Linear,
}

/// Heads of the attention, which divide the features among them.
pub const N_HEADS: usize = 4;

impl TextEncoder {
    pub(crate) fn new(n_ids: usize, n_words: usize, features: usize, device: &Device) -> Self {
        let small = Initializer::Normal { mean: 0.0, std: 0.5 };
        let norm = || LayerNormConfig::new(features).init(device);
        Self {
            words: EmbeddingConfig::new(n_ids, features).with_initializer(small.clone()).init(device),
            places: small.init([n_words, features], device),
            norm_attention: norm(),
            attention: MultiHeadAttentionConfig::new(features, N_HEADS).with_dropout(0.0).init(device),
            norm_layers: norm(),
            wide: LinearConfig::new(features, 2 * features).init(device),
            narrow: LinearConfig::new(2 * features, features).init(device),
        }
    }

    /// # Shapes
    ///
    /// - `tokens`, `padding`: `[n, n_words]`
    /// - `shares`: `[n, 1, n_words]`
    /// - output: `[n, features]`
    pub(crate) fn forward(&self, tokens: Tensor<2, Int>, padding: Tensor<2, Bool>, shares: Tensor<3>) -> Tensor<2> {
        let x = self.words.forward(tokens) + self.places.val().unsqueeze();
        let seen = MhaInput::self_attn(self.norm_attention.forward(x.clone())).mask_pad(padding);
        let x = x + self.attention.forward(seen).context;
        let x = x.clone() + self.narrow.forward(relu(self.wide.forward(self.norm_layers.forward(x))));
        shares.matmul(x).squeeze_dim(1)
    }
}
