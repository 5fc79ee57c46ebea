//! Classification of images with a loop of its own, a schedule and a batch normalisation.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use burn::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;
use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::{AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Int, Tensor};

const SIDE: usize = 24;
const N_CLASSES: u8 = 3;

/// An image of a bar that lies, one that stands, or a square, and which of these it is.
pub(crate) type Sample = (Vec<f32>, u8);

/// Draws images, each with its shape somewhere, on noise.
pub(crate) fn images(n: usize, seed: u64) -> Vec<Sample> {
    let mut state = seed;
    let mut draw = |most: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % most
    };
    let image = |class: u8| {
        let (width, height) = [(12, 3), (3, 12), (6, 6)][usize::from(class)];
        let (left, top) = (draw(SIDE - width), draw(SIDE - height));
        let is_inside = |at: usize| {
            let (x, y) = (at % SIDE, at / SIDE);
            (left..left + width).contains(&x) && (top..top + height).contains(&y)
        };
        ((0..SIDE * SIDE).map(|at| if is_inside(at) { 1.0 } else { draw(2) as f32 / 2.0 }).collect(), class)
    };
    (0..N_CLASSES).cycle().take(n).map(image).collect()
}

#[derive(Module, Debug)]
pub(crate) struct Net {
    first: Conv2d,
    norm: BatchNorm,
    second: Conv2d,
    pool: AdaptiveAvgPool2d,
    output: Linear,
}

impl Net {
    pub(crate) fn init(device: &Device) -> Self {
        Self {
            first: Conv2dConfig::new([1, 8], [5, 5]).init(device),
            norm: BatchNormConfig::new(8).init(device),
            second: Conv2dConfig::new([8, 16], [5, 5]).with_stride([2, 2]).init(device),
            pool: AdaptiveAvgPool2dConfig::new([1, 1]).init(),
            output: LinearConfig::new(16, N_CLASSES.into()).init(device),
        }
    }

    fn scores(&self, samples: &[Sample], device: &Device) -> Tensor<2> {
        let pixels: Vec<f32> = samples.iter().flat_map(|(pixels, _)| pixels.iter().copied()).collect();
        let images = Tensor::<1>::from_floats(&*pixels, device).reshape([samples.len(), 1, SIDE, SIDE]);
        let hidden = relu(self.norm.forward(self.first.forward(images)));
        self.output.forward(self.pool.forward(relu(self.second.forward(hidden))).reshape([samples.len(), 16]))
    }

    pub(crate) fn loss(&self, samples: &[Sample], device: &Device) -> Tensor<1> {
        let classes: Vec<_> = samples.iter().map(|(_, class)| i64::from(*class)).collect();
        let classes = Tensor::<1, Int>::from_ints(&*classes, device);
        CrossEntropyLossConfig::new().init(device).forward(self.scores(samples, device), classes)
    }

    /// Returns the share of the samples that are recognised.
    fn accuracy(&self, samples: &[Sample], device: &Device) -> f64 {
        let found = self.scores(samples, device).argmax(1).into_data();
        let n_right =
            found.iter::<i64>().zip(samples).filter(|(found, (_, class))| *found == i64::from(*class)).count();
        n_right as f64 / samples.len() as f64
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::flex().autodiff();
    device.seed(0);
    let (train, test) = (images(384, 1), images(96, 2));
    let (mut model, mut optimizer) = (Net::init(&device), AdamWConfig::new().init());
    let mut scheduler = CosineAnnealingLrSchedulerConfig::new(1e-2, 48).init()?;
    for epoch in 0..4 {
        for samples in train.chunks(32) {
            let gradients = GradientsParams::from_grads(model.loss(samples, &device).backward(), &model);
            model = optimizer.step(scheduler.step(), model, gradients);
        }
        println!("epoch {epoch}: accuracy {:.3}", model.valid().accuracy(&test, &device.clone().inner()));
    }
    Ok(())
}
