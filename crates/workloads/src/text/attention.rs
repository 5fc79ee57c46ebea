//! Attention in several heads.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use plimsoll_nn::{Runs, attention, softmax};

use super::cache::LayerCache;
use super::sight::Sight;

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

/// What all layers of a pass see.
pub(crate) struct Look<'a> {
    sight: &'a Sight,
    runs: Runs,
    /// What is added to scores, where attention is not in runs.
    biases: Option<Vec<Tensor<4>>>,
}

impl<'a> Look<'a> {
    pub(crate) fn new(sight: &'a Sight, heads: usize) -> Self {
        Self { sight, runs: sight.runs(heads), biases: None }
    }
}

impl Attention {
    pub(crate) fn new(width: usize, heads: usize, device: &Device) -> Self {
        let linear = || LinearConfig::new(width, width).with_bias(false).init(device);
        Self { query: linear(), key: linear(), value: linear(), output: linear(), heads }
    }

    /// Attends to the positions themselves, as far as they are in sight.
    ///
    /// # Shapes
    ///
    /// - `x` and output: `[batch_size · edge, width]`
    pub(crate) fn forward(&self, x: &Tensor<2>, look: &mut Look<'_>) -> Tensor<2> {
        let parts = [&self.query, &self.key, &self.value].map(|it| it.forward(x.clone()));
        let mixed = attention(&parts, &look.runs).unwrap_or_else(|| {
            let [query, key, value] = parts.map(|it| self.divide(it, look.sight.shape()));
            let biases = look.biases.get_or_insert_with(|| look.sight.biases(self.heads, x));
            mix(query, (key, value), biases)
        });
        self.output.forward(mixed)
    }

    /// Goes on where a cache ends: attends to all that it holds once these positions are in it.
    ///
    /// # Shapes
    ///
    /// - `x`: `[batch_size · n_new, width]`, with `shape` being `[batch_size, n_new]`
    /// - `biases`: each `[batch_size or 1, heads or 1, n_new or 1, n_keys]`
    /// - output: `[batch_size · n_new, width]`
    pub(crate) fn extend(
        &self,
        x: &Tensor<2>,
        shape: [usize; 2],
        biases: &[Tensor<4>],
        cache: &mut LayerCache,
    ) -> Tensor<2> {
        let [query, key, value] =
            [&self.query, &self.key, &self.value].map(|it| self.divide(it.forward(x.clone()), shape));
        let seen = cache.extend(key, value);
        self.output.forward(mix(query, seen, biases))
    }

    /// Gives each head its share of the features: `[batch_size, heads, edge, width / heads]`.
    fn divide(&self, x: Tensor<2>, [n, edge]: [usize; 2]) -> Tensor<4> {
        let [_, width] = x.dims();
        x.reshape([n, edge, self.heads, width / self.heads]).swap_dims(1, 2)
    }
}

/// Mixes the values by scores: `[batch_size · edge, width]`.
fn mix(query: Tensor<4>, (key, value): (Tensor<4>, Tensor<4>), biases: &[Tensor<4>]) -> Tensor<2> {
    let [n, heads, edge, head_width] = query.dims();
    let scores = (query / (head_width as f64).sqrt()).matmul(key.swap_dims(2, 3));
    let dtype = scores.dtype();
    let scores = biases.iter().fold(scores, |scores, bias| scores + bias.clone().cast(dtype));
    softmax(scores).matmul(value).swap_dims(1, 2).reshape([n * edge, heads * head_width])
}
