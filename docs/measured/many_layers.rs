//! Steps of networks of Burn's own layers on samples of many sizes, each step below a line.

use std::error::Error;
use std::process::Command;

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
use burn::optim::AdamWConfig;
use burn::tensor::activation::{gelu, log_softmax, relu, silu, softmax};
use burn::tensor::{Device, Distribution, Int, Tensor};
use plimsoll::{Bytes, Features};

#[global_allocator]
static HEAP: plimsoll::TrackingAllocator = plimsoll::TrackingAllocator::new();

/// Samples of a step.
const N: usize = 16;
/// Steps under each capacity.
const N_STEPS: u32 = 60;
/// Budgets, from what steps need in parts of two, 0, to what they need in one part, 1.
const SHARES: [f64; 6] = [0.05, 0.15, 0.3, 0.5, 0.75, 0.95];

/// A network.
trait Net: Module + Sync {
    fn init(device: &Device) -> Self;

    /// Its loss over so many samples of a size.
    fn loss(&self, n: usize, size: usize, device: &Device) -> Tensor<1>;
}

/// The least and the greatest size of its samples, and what all sizes are multiples of.
type Sizes = (u32, u32, u32);

/// Trains one of the networks, on so many threads.
type Drive = fn(&str, Sizes, Features, usize) -> Result<(), Box<dyn Error>>;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let threads = arguments.next().unwrap_or_else(|| "1".to_owned());
    let [linear, square, cubic] = [1, 2, 3].map(Features::powers);
    let nets: [(&str, Sizes, Features, Drive); 11] = [
        ("encoder", (8, 120, 1), square, drive::<Encoder>),
        ("attention", (8, 160, 1), square, drive::<Attentive>),
        ("LSTM", (4, 60, 1), linear, drive::<Recurrent>),
        ("GRU", (4, 60, 1), linear, drive::<Gated>),
        ("1-d convolutions", (4, 64, 1), linear, drive::<Wave>),
        ("U-Net", (16, 96, 4), square, drive::<UNet>),
        ("deformed convolution", (8, 24, 1), square, drive::<Deformed>),
        ("3-d convolutions", (8, 28, 4), cubic, drive::<Volume>),
        ("the same, by the default", (8, 28, 4), square, drive::<Volume>),
        ("sorts and pairs", (4, 60, 1), square, drive::<Sorting>),
        ("wide head", (8, 120, 4), linear, drive::<WideHead>),
    ];
    if let Some(only) = arguments.next() {
        let (name, sizes, features, drive) = nets.into_iter().find(|it| it.0 == only).ok_or("no such network")?;
        return drive(name, sizes, features, threads.parse()?);
    }
    // Each in a process of its own: what products have packed for one would stand on top of the bounds of the next.
    for (name, ..) in nets {
        Command::new(std::env::current_exe()?).args([&threads, name]).status()?;
    }
    Ok(())
}

/// Trains under six capacities, by steps of samples of one size, and of many.
fn drive<M: Net>(name: &str, sizes: Sizes, features: Features, threads: usize) -> Result<(), Box<dyn Error>> {
    let device = Device::flex().autodiff();
    let [two, all] = [2, N].map(|part| need::<M>((part, threads), sizes, &device));
    let (two, all) = (two?.0 as f64, all?.0 as f64);
    let (mut n, mut above, mut singles, mut failed, mut parts) = (0, 0, 0, 0, 0);
    let (mut most, mut mean) = (0.0_f64, 0.0);
    for (share, is_mixed) in SHARES.iter().flat_map(|it| [(it, false), (it, true)]) {
        let budget = two + (all - two) * share;
        let mut step = plimsoll::step(&device, M::init(&device), AdamWConfig::new().init())
            .capacity(Bytes((budget / 0.9) as u64))
            .budget(0.9)
            .features(features)
            .replicas(threads)
            .build()?;
        let mut next = random(sizes, 5 + (100.0 * share) as u64);
        for _ in 0..N_STEPS {
            let samples: Vec<u32> = if is_mixed { (0..N).map(|_| next()).collect() } else { vec![next(); N] };
            let loss = |net: &M, part: Vec<u32>| {
                let largest = part.iter().copied().max().unwrap_or(sizes.0);
                net.loss(part.len(), largest as usize, &device)
            };
            let done = step.run_beside(&samples, |it| *it, 1e-3, loss)?;
            let is_above = done.budget < done.peak;
            n += 1;
            above += u32::from(is_above);
            singles += u32::from(is_above && done.parts.iter().all(|it| it.samples.len() == 1));
            failed += done.failures.len();
            parts += done.parts.len();
            most = most.max(done.peak.share_of(done.budget));
            mean += done.peak.share_of(done.budget);
        }
    }
    let [parts, mean] = [parts as f64, mean].map(|it| it / f64::from(n));
    println!("| {name} | {n} | {above} | {singles} | {failed} | {parts:.2} | {most:.3} | {mean:.3} |");
    Ok(())
}

/// Returns what a step of samples of the greatest size needs in parts of so many, beside what so many threads keep.
fn need<M: Net>(
    (part, threads): (usize, usize),
    (_, largest, _): Sizes,
    device: &Device,
) -> Result<Bytes, Box<dyn Error>> {
    let step = plimsoll::step(device, M::init(device), AdamWConfig::new().init());
    let mut step = step.micro_batch(u32::try_from(part)?).replicas(threads).build()?;
    let mut peak = Bytes::ZERO;
    for _ in 0..2 {
        let loss = |net: &M, part: Vec<u32>| net.loss(part.len(), largest as usize, device);
        peak = peak.max(step.run_by(&[largest; N], |it| *it, 1e-3, loss)?.peak);
    }
    Ok(peak)
}

/// Draws sizes.
fn random((least, greatest, multiple): Sizes, seed: u64) -> impl FnMut() -> u32 {
    let mut random = seed * 88_172_645_463_325_252 | 1;
    move || {
        // Xorshift.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (least + (random % u64::from(greatest - least + 1)) as u32).next_multiple_of(multiple)
    }
}

fn uniform<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Default, device)
}

fn words(n: usize, length: usize, n_words: u32, device: &Device) -> Tensor<2, Int> {
    Tensor::random([n, length], Distribution::Uniform(0.0, f64::from(n_words - 1)), device)
}

/// A transformer's encoder over words.
#[derive(Module, Debug)]
struct Encoder {
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
struct Attentive {
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
struct Recurrent {
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
struct Gated {
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
struct Wave {
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
struct UNet {
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
struct Deformed {
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
struct Volume {
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
struct Sorting {
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
struct WideHead {
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
