//! Regression with a loop of its own.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::AdamConfig;
use burn::tensor::{Device, Tensor};

#[global_allocator]
static HEAP: plimsoll::TrackingAllocator = plimsoll::TrackingAllocator::new();

/// A point, and the height above it.
pub(crate) type Sample = ([f32; 2], f32);

#[derive(Module, Debug)]
pub(crate) struct Net {
    hidden: Linear,
    output: Linear,
}

impl Net {
    pub(crate) fn init(device: &Device) -> Self {
        Self { hidden: LinearConfig::new(2, 64).init(device), output: LinearConfig::new(64, 1).init(device) }
    }

    pub(crate) fn loss(&self, samples: &[Sample], device: &Device) -> Tensor<1> {
        let points: Vec<f32> = samples.iter().flat_map(|(point, _)| *point).collect();
        let heights: Vec<f32> = samples.iter().map(|(_, height)| *height).collect();
        let points = Tensor::<1>::from_floats(&*points, device).reshape([samples.len(), 2]);
        let heights = Tensor::<1>::from_floats(&*heights, device).reshape([samples.len(), 1]);
        (self.output.forward(self.hidden.forward(points).tanh()) - heights).powi_scalar(2).mean()
    }
}

/// Returns points of a grid, with the height of a saddle above them.
pub(crate) fn saddle(n: u16) -> Vec<Sample> {
    let at = |it: u16| f32::from(it) / f32::from(n) * 2.0 - 1.0;
    let points = (0..n).flat_map(|x| (0..n).map(move |y| [at(x), at(y)]));
    points.map(|[x, y]| ([x, y], x * x - y * y)).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::flex().autodiff();
    device.seed(0);
    let mut step = plimsoll::step(&device, Net::init(&device), AdamConfig::new().init()).budget(0.9).build()?;
    for epoch in 0..10 {
        let mut sum = 0.0;
        for samples in saddle(32).chunks(256) {
            sum += step.run(samples, 1e-2, |model, part| model.loss(&part, &device))?.loss;
        }
        println!("epoch {epoch}: loss {sum:.4}");
    }
    Ok(())
}
