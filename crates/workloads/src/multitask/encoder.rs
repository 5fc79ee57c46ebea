//! What all tasks see through.

use burn::module::{Module, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{
    Embedding, EmbeddingConfig, Initializer, LayerNorm, LayerNormConfig, Linear, LinearConfig, PaddingConfig2d,
};
use burn::tensor::activation::relu;
use burn::tensor::{Bool, Device, Int, Tensor};
use plimsoll_nn::{conv2d, layer_norm, softmax};

use super::fusion_config::FusionConfig;
use super::seen::{N_CONVOLUTIONS, Seen};
use super::sizes::Fit;
use crate::rows::by_rows;

/// Keeps the gradient finite where all features are 0.
const TINY: f32 = 1e-5;

/// Convolutions that halve the sides, and a layer over what they found.
///
/// Pooled, a channel of each convolution counts with the mean and the most of it over the image: colours and textures from
/// the first, parts of figures from the last. There is nothing to learn of places then, which a few dozen photographs can
/// only teach wrongly. With places, the layer is over the whole of what the last convolution found.
#[derive(Module, Debug)]
pub(crate) struct ImageEncoder {
    convolutions: Vec<Conv2d>,
    output: Linear,
    has_places: bool,
}

impl ImageEncoder {
    pub(crate) fn new(fit: Fit, config: FusionConfig, device: &Device) -> Self {
        let FusionConfig { channels, features, has_places } = config;
        let has_places = has_places && !fit.keeps_shape;
        let widths: [usize; 1 + N_CONVOLUTIONS] = [3, channels, 2 * channels, 4 * channels];
        let convolution = |pair: &[usize]| {
            let config = Conv2dConfig::new([pair[0], pair[1]], [3, 3]).with_stride([2, 2]);
            config.with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1)).init(device)
        };
        let convolutions: Vec<_> = widths.windows(2).map(convolution).collect();
        let rest = convolutions.iter().fold(fit.side as usize, |rest, _| rest.div_ceil(2));
        let n_pooled = 2 * widths[1..].iter().sum::<usize>();
        let n_seen = if has_places { widths[3] * rest * rest } else { n_pooled };
        Self { convolutions, output: LinearConfig::new(n_seen, features).init(device), has_places }
    }

    /// Returns features of equal size, so that no image of a group outweighs the others.
    ///
    /// # Shapes
    ///
    /// - `images`: `[n, 3, side, side]`, 0 beside what is `seen` of one that is smaller than its place; one that is seen nowhere
    ///   has features of no meaning
    /// - output: `[n, features]`, the mean of whose squares is 1
    pub(crate) fn forward(&self, images: Tensor<4>, seen: &[Seen]) -> Tensor<2> {
        let mut pooled = Vec::with_capacity(2 * self.convolutions.len());
        let last = self.convolutions.iter().enumerate().fold(images, |x, (at, convolution)| {
            let (maps, seen) = (relu(conv2d(convolution, x)), seen.get(at));
            let maps = if let Some(seen) = seen { seen.only(maps) } else { maps };
            if !self.has_places {
                let places: Tensor<3> = maps.clone().flatten(2, 3);
                pooled.push(match seen {
                    Some(seen) => seen.mean(places.clone()),
                    None => places.clone().mean_dim(2).squeeze_dim::<2>(2),
                });
                // Nothing is below 0, which is what lies beside an image.
                pooled.push(places.max_dim(2).squeeze_dim::<2>(2));
            }
            maps
        });
        let seen = if self.has_places { last.flatten(1, 3) } else { Tensor::cat(pooled, 1) };
        let features = self.output.forward(seen);
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
    attention: Attention,
    norm_layers: LayerNorm,
    wide: Linear,
    narrow: Linear,
}

/// Heads of the attention, which divide the features among them.
pub const N_HEADS: usize = 4;

/// What a score of padding is set to: nothing is left of it after the exponential.
const FAR: f64 = -1e4;

/// Attention of every word to all words of its text.
#[derive(Module, Debug)]
struct Attention {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
}

impl Attention {
    fn new(features: usize, device: &Device) -> Self {
        let linear = || LinearConfig::new(features, features).init(device);
        Self { query: linear(), key: linear(), value: linear(), output: linear() }
    }

    /// # Shapes
    ///
    /// - `x`, output: `[n, n_words, features]`
    /// - `padding`: `[n, n_words]`
    fn forward(&self, x: &Tensor<3>, padding: Tensor<2, Bool>) -> Tensor<3> {
        let [n, n_words, features] = x.dims();
        let part = features / N_HEADS;
        let of = |layer| by_rows(layer, x.clone()).reshape([n, n_words, N_HEADS, part]).swap_dims(1, 2);
        let scores = of(&self.query).matmul(of(&self.key).transpose()) / (part as f64).sqrt();
        let seen = scores.mask_fill(padding.reshape([n, 1, 1, n_words]), FAR);
        let mixed = softmax(seen).matmul(of(&self.value));
        by_rows(&self.output, mixed.swap_dims(1, 2).reshape([n, n_words, features]))
    }
}

impl TextEncoder {
    pub(crate) fn new(n_ids: usize, n_words: usize, features: usize, device: &Device) -> Self {
        let small = Initializer::Normal { mean: 0.0, std: 0.5 };
        let norm = || LayerNormConfig::new(features).init(device);
        Self {
            words: EmbeddingConfig::new(n_ids, features).with_initializer(small.clone()).init(device),
            places: small.init([n_words, features], device),
            norm_attention: norm(),
            attention: Attention::new(features, device),
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
        let [_, n_words] = tokens.dims();
        let places = self.places.val().slice_dim(0, 0..n_words);
        let x = self.words.forward(tokens) + places.unsqueeze();
        let x = x.clone() + self.attention.forward(&layer_norm(&self.norm_attention, x), padding);
        let wide = relu(by_rows(&self.wide, layer_norm(&self.norm_layers, x.clone())));
        let x = x + by_rows(&self.narrow, wide);
        shares.matmul(x).squeeze_dim(1)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Distribution;

    use super::*;

    #[test]
    fn an_image_in_a_larger_place_has_the_features_that_it_has_alone() {
        let device = Device::flex();
        device.seed(3);
        let config = FusionConfig { channels: 4, features: 8, ..FusionConfig::default() };
        let encoder = ImageEncoder::new(Fit { side: 32, keeps_shape: true }, config, &device);
        let values = |features: Tensor<2>| features.into_data().iter::<f32>().collect::<Vec<_>>();
        for size @ [height, width] in [[1, 1], [7, 10], [10, 7], [16, 16], [5, 17], [2, 31]] {
            let image = Tensor::<4>::random([1, 3, height, width], Distribution::Uniform(-2.0, 2.0), &device);
            let alone = values(encoder.forward(image.clone(), &[]));
            for side in [17.max(width), 32, 33] {
                let place = Tensor::zeros([1, 3, side, side], &device);
                let place = place.slice_assign([0..1, 0..3, 0..height, 0..width], image.clone());
                let found = values(encoder.forward(place, &Seen::of(&[size], side, &device)));
                let is_off = |(a, b): (&f32, &f32)| 1e-5 < (a - b).abs();
                assert!(!alone.iter().zip(&found).any(is_off), "{size:?} in {side}: {alone:?} {found:?}");
            }
        }
    }
}
