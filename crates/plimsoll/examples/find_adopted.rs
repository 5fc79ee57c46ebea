//! A small autoencoder whose batch is as large as somebody has guessed.

#![expect(clippy::print_stdout, clippy::cast_possible_wrap, reason = "an example shows what it does, of small numbers")]

use std::error::Error;

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Int, Tensor};

#[global_allocator]
static HEAP: plimsoll::TrackingAllocator = plimsoll::TrackingAllocator::new();

/// Points of a wave.
const POINTS: usize = 64;

#[derive(Module, Debug)]
struct Net {
    code: Linear,
    wave: Linear,
}

impl Net {
    fn init(device: &Device) -> Self {
        Self { code: LinearConfig::new(POINTS, 8).init(device), wave: LinearConfig::new(8, POINTS).init(device) }
    }

    fn loss(&self, waves: Tensor<2>) -> Tensor<1> {
        (self.wave.forward(self.code.forward(waves.clone()).tanh()) - waves).powi_scalar(2).mean()
    }
}

/// Makes waves of many lengths.
fn waves(n: usize, device: &Device) -> Tensor<2> {
    let at = Tensor::<1, Int>::arange(0..POINTS as i64, device).float().reshape([1, POINTS]);
    let length = Tensor::<1, Int>::arange(0..n as i64, device).float().reshape([n, 1]) + 16.0;
    (at * 6.0 / length).sin()
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::flex().autodiff();
    let make = || (Net::init(&device), AdamConfig::new().init());
    let found = plimsoll::find_batch_size(&device, make, |n, _| waves(n, &device), Net::loss).batches(1..=256).run()?;
    let n = found.batch() as usize;
    device.seed(0);
    let (mut model, mut optimizer) = (Net::init(&device), AdamConfig::new().init());
    for step in 0..200 {
        let loss = model.loss(waves(n, &device));
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(1e-2, model, gradients);
        if step % 20 == 19 {
            println!("step {step} of {n} waves: loss {:.4}", loss.try_into_data()?.iter::<f64>().sum::<f64>());
        }
    }
    Ok(())
}
