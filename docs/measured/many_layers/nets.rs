//! Networks of Burn's own layers.

use burn::module::Module;
use burn::nn::attention::{
    CrossAttention, CrossAttentionConfig, MhaInput, MultiHeadAttention, MultiHeadAttentionConfig,
    generate_autoregressive_mask,
};
use burn::nn::conv::{
    Conv1d, Conv1dConfig, Conv2d, Conv2dConfig, Conv3d, Conv3dConfig, ConvTranspose1d, ConvTranspose1dConfig,
    ConvTranspose3d, ConvTranspose3dConfig, DeformConv2d, DeformConv2dConfig,
};
use burn::nn::interpolate::{Interpolate2d, Interpolate2dConfig, InterpolateMode};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::{
    AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig, AvgPool2d, AvgPool2dConfig, MaxPool2d, MaxPool2dConfig,
};
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput};
use burn::nn::{
    BatchNorm, BatchNormConfig, BiLstm, BiLstmConfig, Dropout, DropoutConfig, Embedding, EmbeddingConfig, GroupNorm,
    GroupNormConfig, Gru, GruConfig, InstanceNorm, InstanceNormConfig, LayerNorm, LayerNormConfig, Linear,
    LinearConfig, Lstm, LstmConfig, PRelu, PReluConfig, PaddingConfig1d, PaddingConfig2d, PaddingConfig3d, RmsNorm,
    RmsNormConfig, SwiGlu, SwiGluConfig,
};
use burn::tensor::activation::{gelu, log_softmax, relu, silu, softmax};
use burn::tensor::{Device, Distribution, Int, Tensor};

/// A network.
pub(crate) trait Net: Module + Sync {
    fn init(device: &Device) -> Self;

    /// Its loss over so many samples of a size.
    fn loss(&self, n: usize, size: usize, device: &Device) -> Tensor<1>;
}

fn uniform<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Default, device)
}

fn words(n: usize, length: usize, n_words: u32, device: &Device) -> Tensor<2, Int> {
    Tensor::random([n, length], Distribution::Uniform(0.0, f64::from(n_words - 1)), device)
}

/// A transformer's encoder over words.
#[derive(Module, Debug)]
pub(crate) struct Encoder {
    embedding: Embedding,
    encoder: TransformerEncoder,
    head: Linear,
}

impl Net for Encoder {
    fn init(device: &Device) -> Self {
        Self {
            embedding: EmbeddingConfig::new(500, 32).init(device),
            encoder: TransformerEncoderConfig::new(32, 64, 4, 2).init(device),
            head: LinearConfig::new(32, 500).init(device),
        }
    }

    fn loss(&self, n: usize, size: usize, device: &Device) -> Tensor<1> {
        let words = words(n, size, 500, device);
        let input = TransformerEncoderInput::new(self.embedding.forward(words.clone()));
        let scores = self.head.forward(self.encoder.forward(input)).reshape([n * size, 500]);
        CrossEntropyLossConfig::new().init(device).forward(scores, words.reshape([n * size]))
    }
}

/// Attention under a mask, and to half of the positions, with groups and dropout.
#[derive(Module, Debug)]
pub(crate) struct Attentive {
    first: Linear,
    own: MultiHeadAttention,
    norm: GroupNorm,
    other: CrossAttention,
    dropout: Dropout,
}

impl Net for Attentive {
    fn init(device: &Device) -> Self {
        Self {
            first: LinearConfig::new(16, 48).init(device),
            own: MultiHeadAttentionConfig::new(48, 6).init(device),
            norm: GroupNormConfig::new(4, 48).init(device),
            other: CrossAttentionConfig::new(48, 48, 4, 2, 12).init(device),
            dropout: DropoutConfig::new(0.1).init(),
        }
    }

    fn loss(&self, n: usize, size: usize, device: &Device) -> Tensor<1> {
        let first = self.first.forward(uniform([n, size, 16], device));
        let mask = generate_autoregressive_mask(n, size, device);
        let own = self.own.forward(MhaInput::self_attn(first.clone()).mask_attn(mask)).context;
        let own = self.norm.forward(own.swap_dims(1, 2)).swap_dims(1, 2);
        let half = first.clone().slice([0..n, 0..size.div_ceil(2)]);
        (self.dropout.forward(self.other.forward(own, half, None)) - first).powi_scalar(2).mean()
    }
}

/// Two LSTM, one of them in both directions.
#[derive(Module, Debug)]
pub(crate) struct Recurrent {
    first: Lstm,
    both: BiLstm,
    head: Linear,
}

impl Net for Recurrent {
    fn init(device: &Device) -> Self {
        Self {
            first: LstmConfig::new(8, 32, true).init(device),
            both: BiLstmConfig::new(32, 24, true).init(device),
            head: LinearConfig::new(48, 4).init(device),
        }
    }

    fn loss(&self, n: usize, size: usize, device: &Device) -> Tensor<1> {
        let (first, _) = self.first.forward(uniform([n, size, 8], device), None);
        let (both, _) = self.both.forward(first, None);
        self.head.forward(both).powi_scalar(2).mean()
    }
}

/// A GRU.
#[derive(Module, Debug)]
pub(crate) struct Gated {
    gru: Gru,
    head: Linear,
}

impl Net for Gated {
    fn init(device: &Device) -> Self {
        Self { gru: GruConfig::new(8, 32, true).init(device), head: LinearConfig::new(32, 4).init(device) }
    }

    fn loss(&self, n: usize, size: usize, device: &Device) -> Tensor<1> {
        self.head.forward(self.gru.forward(uniform([n, size, 8], device), None)).powi_scalar(2).mean()
    }
}

/// Convolutions over samples of sound, 64 to a size.
#[derive(Module, Debug)]
pub(crate) struct Wave {
    first: Conv1d,
    norm: LayerNorm,
    dilated: Conv1d,
    down: Conv1d,
    up: ConvTranspose1d,
}

impl Net for Wave {
    fn init(device: &Device) -> Self {
        let conv = |n_in, dilation| {
            let padding = PaddingConfig1d::Explicit(dilation, dilation);
            Conv1dConfig::new(n_in, 32, 3).with_dilation(dilation).with_padding(padding).init(device)
        };
        Self {
            first: conv(4, 1),
            norm: LayerNormConfig::new(32).init(device),
            dilated: conv(32, 4),
            down: Conv1dConfig::new(32, 48, 4).with_stride(4).init(device),
            up: ConvTranspose1dConfig::new([48, 4], 4).with_stride(4).init(device),
        }
    }

    fn loss(&self, n: usize, size: usize, device: &Device) -> Tensor<1> {
        let sound = uniform([n, 4, 64 * size], device);
        let first = gelu(self.first.forward(sound.clone()));
        let first = self.norm.forward(first.swap_dims(1, 2)).swap_dims(1, 2);
        let dilated = silu(self.dilated.forward(first.clone()) + first);
        (self.up.forward(self.down.forward(dilated)) - sound).powi_scalar(2).mean()
    }
}

/// Pools, an interpolation, a convolution channel by channel, and the statistics of batches.
#[derive(Module, Debug)]
pub(crate) struct UNet {
    first: Conv2d,
    norm: BatchNorm,
    pool: MaxPool2d,
    second: Conv2d,
    each: Conv2d,
    to_four: AdaptiveAvgPool2d,
    head: Linear,
    blur: AvgPool2d,
    enlarge: Interpolate2d,
    last: Conv2d,
}

impl Net for UNet {
    fn init(device: &Device) -> Self {
        let config = |channels, side| Conv2dConfig::new(channels, [side; 2]).with_padding(PaddingConfig2d::Same);
        let enlarge = Interpolate2dConfig::new().with_scale_factor(Some([2.0; 2])).with_mode(InterpolateMode::Linear);
        let blur = AvgPool2dConfig::new([3; 2]).with_strides([1; 2]).with_padding(PaddingConfig2d::Same);
        Self {
            first: config([3, 16], 3).init(device),
            norm: BatchNormConfig::new(16).init(device),
            pool: MaxPool2dConfig::new([2; 2]).with_strides([2; 2]).init(),
            second: config([16, 24], 3).init(device),
            each: config([24, 24], 5).with_groups(24).init(device),
            to_four: AdaptiveAvgPool2dConfig::new([4; 2]).init(),
            head: LinearConfig::new(24 * 16, 8).init(device),
            blur: blur.init(),
            enlarge: enlarge.init(),
            last: config([40, 3], 3).init(device),
        }
    }

    fn loss(&self, n: usize, size: usize, device: &Device) -> Tensor<1> {
        let images = uniform([n, 3, size, size], device);
        let first = relu(self.norm.forward(self.first.forward(images.clone())));
        let second = gelu(self.each.forward(self.second.forward(self.pool.forward(first.clone()))));
        let scores = self.head.forward(self.to_four.forward(second.clone()).reshape([n, 24 * 16]));
        let both = Tensor::cat(vec![self.blur.forward(first), self.enlarge.forward(second)], 1);
        (self.last.forward(both) - images).abs().mean() + scores.powi_scalar(2).mean()
    }
}

/// A convolution whose places are learnt.
#[derive(Module, Debug)]
pub(crate) struct Deformed {
    places: Conv2d,
    deformed: DeformConv2d,
    last: Conv2d,
}

impl Net for Deformed {
    fn init(device: &Device) -> Self {
        let deformed = DeformConv2dConfig::new([8, 16], [3; 2]).with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1));
        Self {
            places: Conv2dConfig::new([8, 18], [3; 2]).with_padding(PaddingConfig2d::Same).init(device),
            deformed: deformed.init(device),
            last: Conv2dConfig::new([16, 8], [1; 2]).init(device),
        }
    }

    fn loss(&self, n: usize, size: usize, device: &Device) -> Tensor<1> {
        let images = uniform([n, 8, size, size], device);
        let deformed = self.deformed.forward(images.clone(), self.places.forward(images.clone()), None);
        (self.last.forward(relu(deformed)) - images).powi_scalar(2).mean()
    }
}

/// Convolutions over volumes.
#[derive(Module, Debug)]
pub(crate) struct Volume {
    first: Conv3d,
    norm: InstanceNorm,
    down: Conv3d,
    up: ConvTranspose3d,
    last: Conv3d,
}

impl Net for Volume {
    fn init(device: &Device) -> Self {
        let conv = |channels| {
            Conv3dConfig::new(channels, [3; 3]).with_padding(PaddingConfig3d::Explicit(1, 1, 1)).init(device)
        };
        Self {
            first: conv([1, 8]),
            norm: InstanceNormConfig::new(8).init(device),
            down: Conv3dConfig::new([8, 16], [2; 3]).with_stride([2; 3]).init(device),
            up: ConvTranspose3dConfig::new([16, 8], [2; 3]).with_stride([2; 3]).init(device),
            last: conv([16, 1]),
        }
    }

    fn loss(&self, n: usize, size: usize, device: &Device) -> Tensor<1> {
        let volumes = uniform([n, 1, size, size, size], device);
        let first = relu(self.norm.forward(self.first.forward(volumes.clone())));
        let up = self.up.forward(relu(self.down.forward(first.clone())));
        (self.last.forward(Tensor::cat(vec![first, up], 1)) - volumes).powi_scalar(2).mean()
    }
}

/// Sorts, sums, gathers, and all pairs of positions.
#[derive(Module, Debug)]
pub(crate) struct Sorting {
    norm: RmsNorm,
    first: Linear,
    bend: PRelu,
    gate: SwiGlu,
    last: Linear,
}

impl Net for Sorting {
    fn init(device: &Device) -> Self {
        Self {
            norm: RmsNormConfig::new(24).init(device),
            first: LinearConfig::new(24, 40).init(device),
            bend: PReluConfig::new().init(device),
            gate: SwiGluConfig::new(40, 40).init(device),
            last: LinearConfig::new(40, 24).init(device),
        }
    }

    fn loss(&self, n: usize, size: usize, device: &Device) -> Tensor<1> {
        let samples = uniform([n, size, 24], device);
        let hidden = self.first.forward(self.norm.forward(samples.clone()));
        let hidden = self.gate.forward(self.bend.forward(hidden));
        let gathered = hidden.clone().gather(2, hidden.clone().argmax(2).repeat_dim(2, 40));
        let sums = hidden.clone().sort(1) + hidden.clone().cumsum(1) + gathered;
        let hidden = softmax(hidden.clone().matmul(hidden.swap_dims(1, 2)), 2).matmul(sums);
        let few = hidden.clone().slice([0..n, 0..size, 0..4]);
        let apart = (few.clone().unsqueeze_dim::<4>(1) - few.unsqueeze_dim::<4>(2)).powi_scalar(2).sum_dim(3);
        let top = hidden.clone().topk(3, 1).mean();
        (self.last.forward(hidden) - samples).powi_scalar(2).mean() + apart.mean() + top
    }
}

/// Scores for many words after hardly anything, four to a size.
#[derive(Module, Debug)]
pub(crate) struct WideHead {
    embedding: Embedding,
    first: Linear,
    head: Linear,
}

impl Net for WideHead {
    fn init(device: &Device) -> Self {
        Self {
            embedding: EmbeddingConfig::new(4000, 64).init(device),
            first: LinearConfig::new(64, 256).init(device),
            head: LinearConfig::new(256, 4000).init(device),
        }
    }

    fn loss(&self, n: usize, size: usize, device: &Device) -> Tensor<1> {
        let words = words(n, size / 4, 4000, device);
        let scores = self.head.forward(gelu(self.first.forward(self.embedding.forward(words.clone()))));
        log_softmax(scores, 2).gather(2, words.unsqueeze_dim(2)).mean().neg()
    }
}
