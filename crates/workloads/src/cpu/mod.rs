//! Layers for a CPU, each in one node of the graph.
//!
//! Burn makes a softmax of five nodes and a normalisation of nine where gradients are wanted, and Flex gathers the patches of a
//! convolution and computes the error function number by number. Here each of these is one node, whose passes run along rows
//! of memory; it keeps less for the backward pass, too. So are the neighbours of a position, and so is attention, which goes sample
//! by sample and keeps no scores, and the loss of a language model, which keeps no logits.
//!
//! On another device, or in another precision, a layer is Burn's own.

#[cfg(feature = "flex")]
mod attention;
#[cfg(feature = "flex")]
mod convolution;
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
#[cfg(feature = "flex")]
mod surprise;

use std::ops::Range;
use std::sync::Arc;

use burn::nn::conv::Conv2d;
use burn::nn::{LayerNorm, RmsNorm};
use burn::tensor::{Int, Tensor, activation};

/// The most channels, in or out, of a convolution that is ours: ours holds the weight several times over, and where there are
/// many channels its products take longer than what it spares.
#[cfg(feature = "flex")]
const MOST_CHANNELS: usize = 64;

/// Runs of positions, of which each sees itself and those before it in its run, less the farther they are: by a slope of each
/// head's own.
///
/// What lies in no run sees nothing, and nothing is made of it.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "flex"), expect(dead_code, reason = "only a CPU's attention reads them"))]
pub(crate) struct Runs {
    /// Disjoint, among all positions of a batch.
    pub(crate) of: Arc<[Range<usize>]>,
    /// What each head takes off for a distance of one.
    pub(crate) slopes: Arc<[f32]>,
}

/// Mixes the values that each position sees; none where that is not ours to do.
///
/// # Shapes
///
/// - `parts`, which are queries, keys and values, and output: `[positions, width]`, with the features of a head side by side
pub(crate) fn attend(parts: &[Tensor<2>; 3], runs: &Runs) -> Option<Tensor<2>> {
    #[cfg(feature = "flex")]
    if is_ours(&parts[0]) {
        return Some(nodes::attend(parts.clone(), runs));
    }
    let _ = (parts, runs);
    None
}

/// Applies a convolution of 3 × 3 that leaves height and width as they are, or with a stride of 2 halves them; images are padded with
/// one row or column of zeros at each side.
///
/// # Shapes
///
/// - `x`: `[batch_size, channels, height, width]`
/// - output: `[batch_size, channels_out, height, width]`, the last two divided by the stride and rounded up
pub(crate) fn convolve(layer: &Conv2d, x: Tensor<4>) -> Tensor<4> {
    #[cfg(feature = "flex")]
    if let Some(bias) = layer.bias.as_ref().filter(|_| is_ours(&x) && is_narrow(layer)) {
        debug_assert!(layer.kernel_size == [3, 3] && layer.groups == 1 && layer.dilation == [1, 1], "{layer:?}");
        debug_assert!([[1, 1], [2, 2]].contains(&layer.stride), "{layer:?}");
        return nodes::convolve(x, layer.weight.val(), bias.val(), layer.stride == [2, 2]);
    }
    layer.forward(x)
}

/// Normalises rows to a mean of 0 and a variance of 1, and scales and shifts them.
///
/// The layer is one that [`LayerNormConfig`](burn::nn::LayerNormConfig) makes by default: it does not tell its epsilon.
pub(crate) fn normalize<const D: usize>(layer: &LayerNorm, x: Tensor<D>) -> Tensor<D> {
    #[cfg(feature = "flex")]
    if let Some(beta) = layer.beta.as_ref().filter(|_| is_ours(&x)) {
        return nodes::normalize(x, layer.gamma.val(), beta.val());
    }
    layer.forward(x)
}

/// Divides rows by the root of the mean of their squares, and scales them.
#[cfg_attr(feature = "flex", expect(clippy::cast_possible_truncation, reason = "rows are of as many bits"))]
pub(crate) fn normalize_rms<const D: usize>(layer: &RmsNorm, x: Tensor<D>) -> Tensor<D> {
    #[cfg(feature = "flex")]
    if is_ours(&x) {
        return nodes::normalize_rms(x, layer.gamma.val(), layer.epsilon as f32);
    }
    layer.forward(x)
}

/// Puts what lies up to `radius` positions before and after each of a sequence beside it, and zeros for what lies outside.
///
/// # Shapes
///
/// - `x`: `[batch_size, n, width]`
/// - output: `[batch_size, n, (2 · radius + 1) · width]`
pub(crate) fn with_neighbours(x: Tensor<3>, radius: usize) -> Tensor<3> {
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
pub(crate) fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    #[cfg(feature = "flex")]
    if is_ours(&x) {
        return nodes::gelu(x);
    }
    activation::gelu(x)
}

/// Makes shares of 1 of each row, in proportion to the exponentials.
pub(crate) fn softmax<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    #[cfg(feature = "flex")]
    if is_ours(&x) {
        return nodes::softmax(x);
    }
    activation::softmax(x, D - 1)
}

/// Returns the negative logarithm of the probability of each target, by its weight; none where that is not ours to do.
///
/// # Shapes
///
/// - `features`: `[n, width]`
/// - `embedding`: `[vocabulary, width]`; its products with features are logits
/// - `targets`, each below the vocabulary, and `weights`: `[n]`
/// - output: `[n]`
pub(crate) fn surprise(
    features: &Tensor<2>,
    embedding: &Tensor<2>,
    targets: &Tensor<1, Int>,
    weights: &Tensor<1>,
) -> Option<Tensor<1>> {
    #[cfg(feature = "flex")]
    if is_ours(features) {
        return Some(nodes::surprise(features.clone(), embedding.clone(), targets.clone(), weights.clone()));
    }
    let _ = (features, embedding, targets, weights);
    None
}

#[cfg(feature = "flex")]
fn is_narrow(layer: &Conv2d) -> bool {
    let [channels_out, channels, ..] = layer.weight.dims();
    channels.max(channels_out) <= MOST_CHANNELS
}

#[cfg(feature = "flex")]
fn is_ours<const D: usize>(x: &Tensor<D>) -> bool {
    use burn::tensor::{DType, Device};
    x.dtype() == DType::F32 && x.device() == Device::flex()
}

#[cfg(test)]
#[cfg(feature = "flex")]
mod tests;
