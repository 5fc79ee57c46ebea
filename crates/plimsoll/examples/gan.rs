//! Two networks that are trained against each other, each with an optimizer of its own.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::activation::{leaky_relu, softplus};
use burn::tensor::{Device, Distribution, ExecutionError, Tensor};

const N_NOISE: usize = 4;

/// A point of the plane.
pub(crate) type Point = [f32; 2];

/// Points of a circle around a centre.
pub(crate) fn circle(n: u16) -> Vec<Point> {
    // In an order that goes round seven times, so that a batch holds all sides.
    let angle = |at: u16| f32::from(at) * 7.0 / f32::from(n) * std::f32::consts::TAU;
    (0..n).map(|at| [2.0 + angle(at).cos(), angle(at).sin() - 1.0]).collect()
}

fn points(points: &[Point], device: &Device) -> Tensor<2> {
    Tensor::<1>::from_floats(&*points.concat(), device).reshape([points.len(), 2])
}

/// Three layers.
#[derive(Module, Debug)]
pub(crate) struct Net {
    layers: Vec<Linear>,
}

impl Net {
    pub(crate) fn init(n_input: usize, n_output: usize, device: &Device) -> Self {
        let sizes = [(n_input, 32), (32, 32), (32, n_output)];
        Self { layers: sizes.iter().map(|(from, to)| LinearConfig::new(*from, *to).init(device)).collect() }
    }

    fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        let hidden = |input, layer: &Linear| leaky_relu(layer.forward(input), 0.2);
        self.layers[2].forward(self.layers[..2].iter().fold(input, hidden))
    }

    /// Makes points out of noise.
    pub(crate) fn points(&self, n: usize, device: &Device) -> Tensor<2> {
        self.forward(Tensor::random([n, N_NOISE], Distribution::Normal(0.0, 1.0), device))
    }

    /// How badly this network tells real points from made ones.
    pub(crate) fn loss_of_critic(&self, real: &[Point], maker: &Self, device: &Device) -> Tensor<1> {
        let made = maker.points(real.len(), device).detach();
        let (real, made) = (self.forward(points(real, device)), self.forward(made));
        softplus(-real, 1.0).mean() + softplus(made, 1.0).mean()
    }

    /// How badly the points that this network makes deceive the other.
    pub(crate) fn loss_of_maker(&self, n: usize, critic: &Self, device: &Device) -> Tensor<1> {
        softplus(-critic.forward(self.points(n, device)), 1.0).mean()
    }
}

/// Returns how far the middle of made points is from that of real ones.
fn distance(maker: &Net, device: &Device) -> Result<f64, ExecutionError> {
    let middle = maker.points(512, device).mean_dim(0).try_into_data()?;
    Ok(middle.iter::<f64>().zip([2.0, -1.0]).map(|(found, wanted)| (found - wanted).powi(2)).sum::<f64>().sqrt())
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::flex().autodiff();
    device.seed(0);
    let optimizer = || AdamConfig::new().with_beta_1(0.5).init();
    let (mut maker, mut of_maker) = (Net::init(N_NOISE, 2, &device), optimizer());
    let (mut critic, mut of_critic) = (Net::init(2, 1, &device), optimizer());
    for epoch in 0..40 {
        for real in circle(1024).chunks(64) {
            let loss = critic.loss_of_critic(real, &maker, &device);
            critic = of_critic.step(2e-3, critic.clone(), GradientsParams::from_grads(loss.backward(), &critic));
            let loss = maker.loss_of_maker(real.len(), &critic, &device);
            maker = of_maker.step(2e-3, maker.clone(), GradientsParams::from_grads(loss.backward(), &maker));
        }
        println!("epoch {epoch}: distance {:.3}", distance(&maker, &device)?);
    }
    Ok(())
}
