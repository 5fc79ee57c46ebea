//! Attention in several heads.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};

use super::cache::LayerCache;
use crate::cpu::softmax;

/// Attention of positions to positions.
///
/// Queries, keys and values have a matrix each: one for all three would have to be cut, and the gradients of the cuts
/// put together again.
#[derive(Module, Debug)]
pub(crate) struct Attention {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    heads: usize,
}

impl Attention {
    pub(crate) fn new(width: usize, heads: usize, device: &Device) -> Self {
        let linear = || LinearConfig::new(width, width).with_bias(false).init(device);
        Self { query: linear(), key: linear(), value: linear(), output: linear(), heads }
    }

    /// Attends to the positions themselves, or to all that a cache holds once they are in it.
    ///
    /// # Shapes
    ///
    /// - `x`: `[batch_size · edge, width]`, with `shape` being `[batch_size, edge]`
    /// - `biases`: each `[batch_size or 1, heads or 1, edge or 1, n_keys]`
    /// - output: `[batch_size · edge, width]`
    pub(crate) fn forward(
        &self,
        x: Tensor<2>,
        shape: [usize; 2],
        biases: &[Tensor<4>],
        cache: Option<&mut LayerCache>,
    ) -> Tensor<2> {
        let [rows, width] = x.dims();
        let heads = |x: Tensor<2>| self.divide(x, shape);
        let query = heads(self.query.forward(x.clone()));
        let (key, value) = (heads(self.key.forward(x.clone())), heads(self.value.forward(x)));
        let (key, value) = match cache {
            Some(cache) => cache.extend(key, value),
            None => (key, value),
        };
        let scale = (self.heads as f64 / width as f64).sqrt();
        let scores = (query * scale).matmul(key.swap_dims(2, 3));
        let dtype = scores.dtype();
        let scores = biases.iter().fold(scores, |scores, bias| scores + bias.clone().cast(dtype));
        let mixed = softmax(scores).matmul(value);
        self.output.forward(mixed.swap_dims(1, 2).reshape([rows, width]))
    }

    /// Gives each head its share of the features: `[batch_size, heads, edge, width / heads]`.
    fn divide(&self, x: Tensor<2>, [n, edge]: [usize; 2]) -> Tensor<4> {
        let [_, width] = x.dims();
        x.reshape([n, edge, self.heads, width / self.heads]).swap_dims(1, 2)
    }
}
