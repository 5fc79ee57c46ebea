//! Which layers are one node of the graph on a CPU?
//!
//! Burn makes a softmax of five nodes and a normalisation of nine where gradients are wanted, and Flex gathers the patches of a
//! convolution and computes the error function number by number. Here each of these is one node, whose passes run along rows
//! of memory; it keeps less for the backward pass, too. So are the neighbours of a position, and so is attention, which goes sample
//! by sample and keeps no scores, and the loss of a language model, which keeps no logits.
//!
//! Each takes Burn's own module, or its tensors, and computes the same to rounding: a model keeps its parameters, and the records
//! of them. On another device than Flex, in another precision than 32 bits, or in a form that is not listed, it is Burn's own.
//!
//! ```
//! use burn::nn::PaddingConfig2d;
//! use burn::nn::conv::Conv2dConfig;
//! use burn::tensor::{Device, Tensor};
//!
//! let device = Device::flex().autodiff();
//! let layer = Conv2dConfig::new([3, 16], [3, 3]).with_padding(PaddingConfig2d::Same).init(&device);
//! let images = Tensor::<4>::ones([2, 3, 32, 32], &device);
//! let features = plimsoll_nn::gelu(plimsoll_nn::conv2d(&layer, images));
//! assert_eq!(features.dims(), [2, 16, 32, 32]);
//! ```
//!
//! # Invariants
//!
//! * What a node needs grows with the sizes of what it is given, or not at all: bounds on the memory of a step rest on that.
//! * A layer knows no job, no budget and no other crate of Plimsoll.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[cfg(feature = "flex")]
mod attention;
#[cfg(feature = "flex")]
mod backward;
#[cfg(feature = "flex")]
mod convolution;
#[cfg(feature = "flex")]
mod cross_entropy;
#[cfg(feature = "flex")]
mod halving;
#[cfg(feature = "flex")]
mod neighbours;
#[cfg(feature = "flex")]
mod nodes;
#[cfg(feature = "flex")]
mod numbers;
#[cfg(feature = "flex")]
mod rows;

use std::ops::Range;
use std::sync::Arc;

#[cfg(feature = "flex")]
use burn::nn::PaddingConfig2d;
use burn::nn::conv::Conv2d;
use burn::nn::{LayerNorm, RmsNorm};
use burn::tensor::{DType, Int, Tensor, activation, module};

/// The most channels, in or out, of a convolution that is ours: ours holds the weight several times over, and where there are
/// many channels its products take longer than what it spares.
#[cfg(feature = "flex")]
const MOST_CHANNELS: usize = 64;

/// Runs of positions, of which each sees itself and those before it in its run, less the farther they are: by a slope of each
/// head's own.
///
/// What lies in no run sees nothing, and nothing is made of it.
///
/// # Sources
///
/// The biases are those of Press et al., "Train Short, Test Long: Attention with Linear Biases Enables Input Length
/// Extrapolation", 2022.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "flex"), expect(dead_code, reason = "only a CPU's attention reads them"))]
pub struct Runs {
    of: Arc<[Range<usize>]>,
    slopes: Arc<[f32]>,
}

impl Runs {
    /// Takes runs, which are disjoint among all positions of a batch, and what each head takes off a score for a distance of one.
    pub fn new(of: Arc<[Range<usize>]>, slopes: impl IntoIterator<Item = f32>) -> Self {
        Self { of, slopes: slopes.into_iter().collect() }
    }
}

/// Mixes the values that each position sees; none where the tensors are not of 32 bits on Flex.
///
/// Memory grows with the length of a run and not with its square.
///
/// # Shapes
///
/// - `parts`, which are queries, keys and values, and output: `[positions, width]`, with the features of a head side by side
pub fn attention(parts: &[Tensor<2>; 3], runs: &Runs) -> Option<Tensor<2>> {
    #[cfg(feature = "flex")]
    if is_ours(&parts[0]) {
        return Some(nodes::attention(parts.clone(), runs));
    }
    let _ = (parts, runs);
    None
}

/// Applies a convolution: ours is one of 3 × 3 with a bias and at most 64 channels, that leaves height and width as they are, or
/// halves them by a stride of 2 and rounds up; images are padded with one row or column of zeros at each side.
///
/// # Shapes
///
/// - `x`: `[batch_size, channels, height, width]`
/// - output: `[batch_size, channels_out, height_out, width_out]`
pub fn conv2d(layer: &Conv2d, x: Tensor<4>) -> Tensor<4> {
    #[cfg(feature = "flex")]
    if let Some(bias) = layer.bias.as_ref().filter(|_| is_ours(&x) && is_around(layer)) {
        return nodes::conv2d(x, layer.weight.val(), bias.val(), layer.stride == [2, 2]);
    }
    layer.forward(x)
}

/// Normalises rows to a mean of 0 and a variance of 1, and scales and shifts them.
///
/// The layer must have the epsilon that [`LayerNormConfig`](burn::nn::LayerNormConfig) has by default, 1e-5: it does not tell it.
///
/// # Shapes
///
/// - `x` and output: `[.., width]`
pub fn layer_norm<const D: usize>(layer: &LayerNorm, x: Tensor<D>) -> Tensor<D> {
    #[cfg(feature = "flex")]
    if let Some(beta) = layer.beta.as_ref().filter(|_| is_ours(&x)) {
        return nodes::layer_norm(x, layer.gamma.val(), beta.val());
    }
    layer.forward(x)
}

/// Divides rows by the root of the mean of their squares, and scales them.
///
/// # Shapes
///
/// - `x` and output: `[.., width]`
#[cfg_attr(feature = "flex", expect(clippy::cast_possible_truncation, reason = "rows are of as many bits"))]
pub fn rms_norm<const D: usize>(layer: &RmsNorm, x: Tensor<D>) -> Tensor<D> {
    #[cfg(feature = "flex")]
    if is_ours(&x) {
        return nodes::rms_norm(x, layer.gamma.val(), layer.epsilon as f32);
    }
    layer.forward(x)
}

/// Puts what lies up to `radius` positions before and after each of a sequence beside it, and zeros for what lies outside.
///
/// # Shapes
///
/// - `x`: `[batch_size, n, width]`
/// - output: `[batch_size, n, (2 · radius + 1) · width]`
pub fn with_neighbours(x: Tensor<3>, radius: usize) -> Tensor<3> {
    #[cfg(feature = "flex")]
    if is_ours(&x) {
        return nodes::with_neighbours(x, radius);
    }
    join_neighbours(x, radius)
}

/// What [`with_neighbours`] does, by operations of Burn.
fn join_neighbours(x: Tensor<3>, radius: usize) -> Tensor<3> {
    let [batch_size, n, width] = x.dims();
    let edge = Tensor::zeros([batch_size, radius, width], (&x.device(), x.dtype()));
    let padded = Tensor::cat(vec![edge.clone(), x, edge], 1);
    Tensor::cat((0..=2 * radius).map(|at| padded.clone().narrow(1, at, n)).collect(), 2)
}

/// Multiplies each number by the probability that a normal one is below it.
pub fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    #[cfg(feature = "flex")]
    if is_ours(&x) {
        return nodes::gelu(x);
    }
    activation::gelu(x)
}

/// Makes shares of 1 of each row, in proportion to the exponentials.
///
/// # Shapes
///
/// - `x` and output: `[.., width]`
pub fn softmax<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    #[cfg(feature = "flex")]
    if is_ours(&x) {
        return nodes::softmax(x);
    }
    activation::softmax(x, D - 1)
}

/// Returns the negative logarithm of the probability of each target, by its weight: the logits are products of features and the
/// embedding, and none is kept.
///
/// Elsewhere than on Flex the logits are kept; the target's own is computed once more from its row of the embedding, so that
/// nothing as large is gathered from or scattered into.
///
/// # Shapes
///
/// - `features`: `[n, width]`
/// - `embedding`: `[vocabulary, width]`
/// - `targets`, each below the vocabulary, and `weights`: `[n]`
/// - output: `[n]`, in 32 bits
pub fn linear_cross_entropy(
    features: Tensor<2>,
    embedding: Tensor<2>,
    targets: Tensor<1, Int>,
    weights: Tensor<1>,
) -> Tensor<1> {
    #[cfg(feature = "flex")]
    if is_ours(&features) {
        return nodes::linear_cross_entropy(features, embedding, targets, weights);
    }
    let rows = module::embedding(embedding.clone(), targets.unsqueeze_dim(1)).flatten(0, 1);
    let own = (features.clone() * rows).cast(DType::F32).sum_dim(1);
    let logits = features.matmul(embedding.transpose()).cast(DType::F32);
    let most = logits.clone().detach().max_dim(1);
    let log_sum = (logits - most.clone()).exp().sum_dim(1).log() + most;
    (log_sum - own).flatten(0, 1) * weights
}

/// Whether a convolution looks at all pixels around each, or each second, and is narrow.
#[cfg(feature = "flex")]
fn is_around(layer: &Conv2d) -> bool {
    let [channels_out, channels, ..] = layer.weight.dims();
    let is_padded = match layer.padding {
        PaddingConfig2d::Explicit(1, 1, 1, 1) => [[1, 1], [2, 2]].contains(&layer.stride),
        PaddingConfig2d::Same => layer.stride == [1, 1],
        _ => false,
    };
    let is_plain = layer.kernel_size == [3, 3] && layer.groups == 1 && layer.dilation == [1, 1];
    is_padded && is_plain && channels.max(channels_out) <= MOST_CHANNELS
}

#[cfg(feature = "flex")]
fn is_ours<const D: usize>(x: &Tensor<D>) -> bool {
    x.dtype() == DType::F32 && x.device() == burn::tensor::Device::flex()
}

#[cfg(test)]
#[cfg(feature = "flex")]
mod tests;
