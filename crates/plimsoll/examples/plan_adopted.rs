//! A small image classifier whose batch is as large as somebody has guessed.

#![expect(clippy::print_stdout, clippy::cast_possible_wrap, reason = "an example shows what it does, of small numbers")]

use std::error::Error;

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Int, Tensor};

#[global_allocator]
static HEAP: plimsoll::TrackingAllocator = plimsoll::TrackingAllocator::new();

/// Images, and the class of each.
type Batch = (Tensor<4>, Tensor<1, Int>);

#[derive(Module, Debug)]
struct Net {
    wide: Conv2d,
    deep: Conv2d,
    classes: Linear,
}

impl Net {
    fn init(device: &Device) -> Self {
        let conv = |from, to| Conv2dConfig::new([from, to], [3, 3]).with_stride([2, 2]).init(device);
        Self { wide: conv(1, 8), deep: conv(8, 16), classes: LinearConfig::new(16, 2).init(device) }
    }

    fn loss(&self, (images, classes): Batch) -> Tensor<1> {
        let seen = relu(self.deep.forward(relu(self.wide.forward(images))));
        let scores = self.classes.forward(seen.mean_dims(&[2, 3]).reshape([-1, 16]));
        CrossEntropyLossConfig::new().init(&scores.device()).forward(scores, classes)
    }
}

/// Makes images with stripes, which lie in the one class or stand in the other.
fn stripes(n: usize, edge: usize, device: &Device) -> Batch {
    let line = Tensor::<1, Int>::arange(0..edge as i64, device).remainder_scalar(4).lower_scalar(2).float();
    let lying = line.reshape([1, 1, edge, 1]).repeat(&[n, 1, 1, edge]);
    let classes = Tensor::<1, Int>::arange(0..n as i64, device).remainder_scalar(2);
    let stands = classes.clone().float().reshape([n, 1, 1, 1]);
    let standing = lying.clone().swap_dims(2, 3);
    (lying.clone() + stands * (standing - lying), classes)
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::flex().autodiff();
    let make = || (Net::init(&device), AdamConfig::new().init());
    let plan = plimsoll::plan(&device, make, |n, edge| stripes(n, edge, &device), Net::loss);
    let plan = plan.shapes([(8, 16), (16, 16), (32, 16), (64, 16)]).run()?;
    println!("{plan}");
    let (n, edge) = (plan.largest(16).ok_or("none of these fits")? as usize, 16);
    device.seed(0);
    let (mut model, mut optimizer) = (Net::init(&device), AdamConfig::new().init());
    for step in 0..12 {
        let loss = model.loss(stripes(n, edge, &device));
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(1e-2, model, gradients);
        println!("step {step} of {n} images: loss {:.4}", loss.try_into_data()?.iter::<f64>().sum::<f64>());
    }
    Ok(())
}
