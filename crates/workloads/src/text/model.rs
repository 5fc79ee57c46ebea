//! A small decoder-only transformer.

use burn::module::{Initializer, Module};
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig, RmsNorm, RmsNormConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Int, Tensor};
use plimsoll_nn::{linear_cross_entropy, rms_norm};

use super::attention::{Attention, Look};
use super::bias::bias;
use super::cache::Cache;
use super::sight::Sight;

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
    /// Returns the features from which the token after each position is predicted, where each row is a sample.
    ///
    /// A position sees itself and those before it, so padding at the end changes nothing before it.
    ///
    /// # Shapes
    ///
    /// - `tokens`: `[batch_size, edge]`
    /// - output: `[batch_size · edge, width]`
    pub fn forward(&self, tokens: Tensor<2, Int>) -> Tensor<2> {
        let sight = Sight::of_rows(tokens.dims());
        self.forward_seeing(tokens, &sight)
    }

    /// The same for other samples than rows: what lies in none has features that mean nothing.
    pub fn forward_seeing(&self, tokens: Tensor<2, Int>, sight: &Sight) -> Tensor<2> {
        let mut look = Look::new(sight, self.heads);
        self.run(tokens, |block, _, x| block.attention.forward(&x, &mut look))
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
        let shape = tokens.dims();
        self.run(tokens, |block, at, x| block.attention.extend(&x, shape, &biases, &mut cache.layers[at]))
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

    /// Returns the negative logarithm of the probability of each target, by its weight.
    ///
    /// # Shapes
    ///
    /// - `features`: `[batch_size · edge, width]`
    /// - `targets` and `weights`: `[batch_size, edge]`
    /// - output: `[batch_size · edge]`, in 32 bits
    pub fn surprise(&self, features: Tensor<2>, targets: Tensor<2, Int>, weights: Tensor<2>) -> Tensor<1> {
        linear_cross_entropy(features, self.embedding.weight.val(), targets.flatten(0, 1), weights.flatten(0, 1))
    }

    fn run(&self, tokens: Tensor<2, Int>, mut attend: impl FnMut(&Block, usize, Tensor<2>) -> Tensor<2>) -> Tensor<2> {
        let embedded: Tensor<2> = self.embedding.forward(tokens).flatten(0, 1);
        let [_, width] = embedded.dims();
        let mut x = embedded * (width as f64).sqrt();
        for (at, block) in self.blocks.iter().enumerate() {
            x = x.clone() + attend(block, at, rms_norm(&block.attention_norm, x));
            x = x.clone() + block.perceive(x);
        }
        rms_norm(&self.norm, x)
    }
}

impl Block {
    fn perceive(&self, x: Tensor<2>) -> Tensor<2> {
        self.down.forward(relu(self.up.forward(rms_norm(&self.perceptron_norm, x))))
    }
}
