//! A small attention encoder.

use burn::module::Module;
use burn::nn::{LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::tensor::{DType, Device, Tensor};
use plimsoll_nn::{gelu, layer_norm, softmax, with_neighbours};

use crate::rows::by_rows;

/// Size of an [`Encoder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderConfig {
    /// Attention heads.
    pub heads: usize,
    /// Features of each head: inside the model a frame has `heads · head_width`.
    pub head_width: usize,
    /// Attention blocks.
    pub blocks: u32,
}

impl Default for EncoderConfig {
    /// Suits some hundred recordings of up to a second: 93 thousand parameters learn them in a minute of CPU time.
    fn default() -> Self {
        Self { heads: 4, head_width: 16, blocks: 2 }
    }
}

/// Sequences to scores of classes: two convolutions over time, attention blocks, the mean over the frames, and a linear
/// layer.
///
/// The convolutions see the order of neighbouring frames, so nothing else has to say where a frame is.
/// Neither batch norm nor dropout: a sample's scores do not depend on the others of its batch.
///
/// # Sources
///
/// Blocks with the norm first: Xiong et al., "On Layer Normalization in the Transformer Architecture", ICML 2020.
#[derive(Module, Debug)]
pub struct Encoder {
    first: Context,
    second: Context,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
}

/// A convolution over time, as one matrix product over each frame and its neighbours.
#[derive(Module, Debug)]
struct Context {
    linear: Linear,
    norm: LayerNorm,
    radius: usize,
}

#[derive(Module, Debug)]
struct Block {
    attention_norm: LayerNorm,
    query_key_value: Linear,
    output: Linear,
    hidden_norm: LayerNorm,
    hidden_in: Linear,
    hidden_out: Linear,
    heads: usize,
}

impl EncoderConfig {
    /// Creates a model on a device.
    pub fn init(&self, n_values: usize, n_classes: usize, device: &Device) -> Encoder {
        let width = self.width();
        Encoder {
            first: context(n_values, width, 2, device),
            second: context(width, width, 1, device),
            blocks: (0..self.blocks).map(|_| self.block(device)).collect(),
            norm: norm(width, device),
            head: LinearConfig::new(width, n_classes).init(device),
        }
    }

    fn width(&self) -> usize {
        self.heads * self.head_width
    }

    fn block(&self, device: &Device) -> Block {
        let linear = |from, to| LinearConfig::new(from, to).init(device);
        let width = self.width();
        Block {
            attention_norm: norm(width, device),
            query_key_value: linear(width, 3 * width),
            output: linear(width, width),
            hidden_norm: norm(width, device),
            hidden_in: linear(width, 2 * width),
            hidden_out: linear(2 * width, width),
            heads: self.heads,
        }
    }
}

fn norm(width: usize, device: &Device) -> LayerNorm {
    LayerNormConfig::new(width).init(device)
}

fn context(from: usize, to: usize, radius: usize, device: &Device) -> Context {
    let linear = LinearConfig::new((2 * radius + 1) * from, to).init(device);
    Context { linear, norm: norm(to, device), radius }
}

impl Encoder {
    /// Returns a score for each class.
    ///
    /// # Shapes
    ///
    /// - `frames`: `[batch_size, n_frames, n_values]`, zero where there is padding
    /// - `mask`: `[batch_size, n_frames, 1]`, 1 where there is a frame and 0 where there is padding
    /// - output: `[batch_size, n_classes]`, in 32 bits
    pub fn forward(&self, frames: Tensor<3>, mask: Tensor<3>) -> Tensor<2> {
        let [frames, mask] = [frames, mask].map(|it| it.cast(self.head.weight.dtype()));
        let x = self.first.forward(frames) * mask.clone();
        let x = x.clone() + self.second.forward(x);
        // What padding would contribute is 0 after the exponential.
        let far = ((mask.clone() - 1.0) * 1e4).swap_dims(1, 2).unsqueeze_dim::<4>(1);
        let x = self.blocks.iter().fold(x, |x, block| block.forward(x, far.clone()));
        let share = mask.clone() / mask.sum_dim(1);
        let mean: Tensor<2> = (layer_norm(&self.norm, x) * share).sum_dim(1).squeeze_dim(1);
        self.head.forward(mean).cast(DType::F32)
    }
}

impl Context {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        gelu(layer_norm(&self.norm, by_rows(&self.linear, with_neighbours(x, self.radius))))
    }
}

impl Block {
    fn forward(&self, x: Tensor<3>, far: Tensor<4>) -> Tensor<3> {
        let x = x.clone() + self.attention(layer_norm(&self.attention_norm, x), far);
        let hidden = gelu(by_rows(&self.hidden_in, layer_norm(&self.hidden_norm, x.clone())));
        x + by_rows(&self.hidden_out, hidden)
    }

    fn attention(&self, x: Tensor<3>, far: Tensor<4>) -> Tensor<3> {
        let [batch_size, n_frames, width] = x.dims();
        let part = width / self.heads;
        let all =
            by_rows(&self.query_key_value, x).reshape([batch_size, n_frames, 3 * self.heads, part]).swap_dims(1, 2);
        let of = |at: usize| all.clone().narrow(1, at * self.heads, self.heads);
        let scores = of(0).matmul(of(1).transpose()) * (part as f64).powf(-0.5) + far;
        let mixed = softmax(scores).matmul(of(2));
        by_rows(&self.output, mixed.swap_dims(1, 2).reshape([batch_size, n_frames, width]))
    }
}
