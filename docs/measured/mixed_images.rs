//! Steps of images of many sizes through Burn's own convolutions, each step below a line.

use std::error::Error;

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig, ConvTranspose2d, ConvTranspose2dConfig};
use burn::nn::{GroupNorm, GroupNormConfig, PaddingConfig2d};
use burn::optim::AdamWConfig;
use burn::tensor::activation::{relu, silu};
use burn::tensor::{Device, Distribution, Tensor};
use plimsoll::Bytes;

#[global_allocator]
static HEAP: plimsoll::TrackingAllocator = plimsoll::TrackingAllocator::new();

const N_STEPS: u32 = 100;

#[derive(Module, Debug)]
struct Net {
    wide: Conv2d,
    wide_norm: GroupNorm,
    down: Conv2d,
    down_norm: GroupNorm,
    up: ConvTranspose2d,
    last: Conv2d,
}

impl Net {
    fn init(device: &Device) -> Self {
        let conv = |channels| Conv2dConfig::new(channels, [3, 3]).with_padding(PaddingConfig2d::Same).init(device);
        Self {
            wide: conv([3, 16]),
            wide_norm: GroupNormConfig::new(4, 16).init(device),
            down: Conv2dConfig::new([16, 32], [2, 2]).with_stride([2, 2]).init(device),
            down_norm: GroupNormConfig::new(4, 32).init(device),
            up: ConvTranspose2dConfig::new([32, 16], [2, 2]).with_stride([2, 2]).init(device),
            last: conv([32, 1]),
        }
    }

    fn loss(&self, n: usize, side: usize, device: &Device) -> Tensor<1> {
        let images = Tensor::<4>::random([n, 3, side, side], Distribution::Default, device);
        let wide = silu(self.wide_norm.forward(self.wide.forward(images.clone())));
        let down = relu(self.down_norm.forward(self.down.forward(wide.clone())));
        let last = self.last.forward(Tensor::cat(vec![wide, self.up.forward(down)], 1));
        (last - images.mean_dim(1)).powi_scalar(2).mean()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::flex().autodiff();
    for (mib, seed) in [(20, 5), (25, 8), (30, 1), (30, 2), (30, 3), (30, 4), (40, 6), (50, 7)] {
        let mut step = plimsoll::step(&device, Net::init(&device), AdamWConfig::new().init())
            .capacity(Bytes::mib(mib))
            .budget(0.9)
            .build()?;
        let (mut above, mut failed, mut parts, mut share) = (0, 0, 0, 0.0_f64);
        let mut random = seed * 88_172_645_463_325_252_u64 | 1;
        for _ in 0..N_STEPS {
            // Xorshift.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let side = 16 + 4 * u32::try_from(random % 12)?;
            let loss = |net: &Net, part: Vec<u32>| net.loss(part.len(), side as usize, &device);
            let done = step.run_by(&[side; 16], |it| *it, 1e-3, loss)?;
            above += u32::from(done.budget < done.peak);
            failed += done.failures.len();
            parts += done.parts.len();
            share = share.max(done.peak.share_of(done.budget));
        }
        let parts = parts as f64 / f64::from(N_STEPS);
        println!("{mib} MiB: {above} above the budget, {failed} failed, {parts:.2} parts a step, {share:.2} of the budget");
    }
    Ok(())
}
