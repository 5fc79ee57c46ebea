//! A small decoder-only transformer.

use burn::module::{Initializer, Module};
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig, RmsNorm, RmsNormConfig};
use burn::tensor::activation::relu;
use burn::tensor::{DType, Device, Int, Tensor};

use super::attention::Attention;
use super::bias::{apart, bias};
use super::cache::{Cache, LayerCache};

/// Size of a [`Gpt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GptConfig {
    /// Blocks.
    pub layers: usize,
    /// Features of a position; a multiple of `heads`.
    pub width: usize,
    /// Attention heads of a block.
    pub heads: usize,
}

/// A language model: blocks of causal attention and a perceptron, each behind a normalisation, between an embedding and
/// its transpose.
///
/// Positions enter as a bias of the attention alone, so that the model knows no longest text.
///
/// # Sources
///
/// Vaswani et al., "Attention Is All You Need", NIPS 2017; normalisation before each part: Xiong et al., ICML 2020, by
/// the root mean square: Zhang and Sennrich, `NeurIPS` 2019; biases for positions: Press, Smith and Lewis, ICLR 2022; the
/// transpose of the embedding as the output: Press and Wolf, EACL 2017.
#[derive(Module, Debug)]
pub struct Gpt {
    embedding: Embedding,
    blocks: Vec<Block>,
    norm: RmsNorm,
    heads: usize,
}

#[derive(Module, Debug)]
struct Block {
    attention_norm: RmsNorm,
    attention: Attention,
    perceptron_norm: RmsNorm,
    up: Linear,
    down: Linear,
}

impl Default for GptConfig {
    /// What learns most in the first minutes on a CPU: more layers learn no faster by the step, and take longer.
    fn default() -> Self {
        Self { layers: 2, width: 128, heads: 4 }
    }
}

impl GptConfig {
    /// Creates a model of `vocabulary` tokens on a device.
    pub fn init(&self, vocabulary: usize, device: &Device) -> Gpt {
        // Small as an output, so that the first guesses are nearly uniform; as an input it is scaled up again.
        let spread = Initializer::Normal { mean: 0.0, std: 0.02 };
        Gpt {
            embedding: EmbeddingConfig::new(vocabulary, self.width).with_initializer(spread).init(device),
            blocks: (0..self.layers).map(|_| self.block(device)).collect(),
            norm: RmsNormConfig::new(self.width).init(device),
            heads: self.heads,
        }
    }

    fn block(&self, device: &Device) -> Block {
        let linear = |from, to| LinearConfig::new(from, to).with_bias(false).init(device);
        let norm = || RmsNormConfig::new(self.width).init(device);
        Block {
            attention_norm: norm(),
            attention: Attention::new(self.width, self.heads, device),
            perceptron_norm: norm(),
            up: linear(self.width, 4 * self.width),
            down: linear(4 * self.width, self.width),
        }
    }
}

impl Gpt {
    /// Returns the features from which the token after each position is predicted.
    ///
    /// A position sees itself and those before it, so padding at the end changes nothing before it; in a row of several samples,
    /// where `segments` says which of them a position belongs to, only those of its own sample.
    ///
    /// # Shapes
    ///
    /// - `tokens` and `segments`: `[batch_size, edge]`
    /// - output: `[batch_size · edge, width]`
    pub fn forward(&self, tokens: Tensor<2, Int>, segments: Option<Tensor<2, Int>>) -> Tensor<2> {
        let [_, edge] = tokens.dims();
        let bias = bias(self.heads, 0..edge, &tokens.device());
        let biases: Vec<_> = [bias].into_iter().chain(segments.map(apart)).collect();
        self.run(tokens, &biases, None)
    }

    /// Goes on where a cache ends, and adds to it.
    ///
    /// # Shapes
    ///
    /// - `tokens`: `[batch_size, n_new]`
    /// - output: `[batch_size · n_new, width]`
    ///
    /// # Panics
    ///
    /// When the cache has no room for as many positions.
    pub fn extend(&self, tokens: Tensor<2, Int>, cache: &mut Cache) -> Tensor<2> {
        let [_, n_new] = tokens.dims();
        let rows = cache.advance(n_new);
        let biases = [bias(self.heads, rows.clone(), &tokens.device()), cache.padding(rows.end)];
        self.run(tokens, &biases, Some(&mut cache.layers))
    }

    /// Returns an empty cache for `positions` positions, of which the first `n_padding` of each sample are padding.
    pub fn cache(&self, n_padding: &[usize], positions: usize, device: &Device) -> Cache {
        let [_, width] = self.embedding.weight.dims();
        let shape = [n_padding.len(), self.heads, positions, width / self.heads];
        Cache::new(self.blocks.len(), shape, n_padding, device)
    }

    /// Returns how the model values each token of its vocabulary.
    ///
    /// # Shapes
    ///
    /// - `features`: `[n, width]`
    /// - output: `[n, vocabulary]`
    pub fn logits(&self, features: Tensor<2>) -> Tensor<2> {
        features.matmul(self.embedding.weight.val().transpose())
    }

    /// Returns the negative logarithm of the probability of each target.
    ///
    /// The logarithm of the sum of all exponentials, less the target's own logit, which is computed once more from its
    /// row of the embedding: so nothing as large as the logits is gathered from or scattered into.
    ///
    /// # Shapes
    ///
    /// - `features`: `[batch_size · edge, width]`
    /// - `targets`: `[batch_size, edge]`
    /// - output: `[batch_size · edge]`, in 32 bits
    pub fn surprise(&self, features: Tensor<2>, targets: Tensor<2, Int>) -> Tensor<1> {
        let rows = self.embedding.forward(targets).flatten(0, 1);
        let own = (features.clone() * rows).cast(DType::F32).sum_dim(1);
        let logits = self.logits(features).cast(DType::F32);
        let most = logits.clone().detach().max_dim(1);
        let log_sum = (logits - most.clone()).exp().sum_dim(1).log() + most;
        (log_sum - own).flatten(0, 1)
    }

    fn run(&self, tokens: Tensor<2, Int>, biases: &[Tensor<4>], mut cache: Option<&mut Vec<LayerCache>>) -> Tensor<2> {
        let [n, edge] = tokens.dims();
        let embedded: Tensor<2> = self.embedding.forward(tokens).flatten(0, 1);
        let [_, width] = embedded.dims();
        let mut x = embedded * (width as f64).sqrt();
        for (i, block) in self.blocks.iter().enumerate() {
            let layer = cache.as_mut().map(|layers| &mut layers[i]);
            x = block.forward(x, [n, edge], biases, layer);
        }
        self.norm.forward(x)
    }
}

impl Block {
    fn forward(
        &self,
        x: Tensor<2>,
        shape: [usize; 2],
        biases: &[Tensor<4>],
        cache: Option<&mut LayerCache>,
    ) -> Tensor<2> {
        let attended = self.attention.forward(self.attention_norm.forward(x.clone()), shape, biases, cache);
        let x = x + attended;
        let hidden = relu(self.up.forward(self.perceptron_norm.forward(x.clone())));
        x + self.down.forward(hidden)
    }
}
