//! A step that is run in parts has the gradient of the undivided step.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{Linear, LinearConfig, PaddingConfig2d};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Distribution, Tensor};
use plimsoll_step::{WeightedAccumulator, squared_norm};

#[derive(Module, Debug)]
struct Net {
    conv: Conv2d,
    linear: Linear,
}

impl Net {
    fn init(device: &Device) -> Self {
        let conv = Conv2dConfig::new([3, 8], [3, 3]).with_padding(PaddingConfig2d::Same).init(device);
        Self { conv, linear: LinearConfig::new(8 * 6 * 6, 5).init(device) }
    }

    fn mean_loss(&self, images: Tensor<4>) -> Tensor<1> {
        let features = burn::tensor::activation::relu(self.conv.forward(images));
        self.linear.forward(features.flatten::<2>(1, 3)).powi_scalar(2).mean()
    }
}

/// Returns the gradients of the mean loss over all images, run in parts of these sizes.
fn gradients(net: &Net, images: &Tensor<4>, sizes: &[usize]) -> GradientsParams {
    let n_total = sizes.iter().map(|n| *n as u64).sum();
    let mut accumulator = WeightedAccumulator::new(n_total);
    let mut start = 0;
    for n in sizes {
        let part = images.clone().narrow(0, start, *n);
        let gradients = accumulator.backward(net, &net.mean_loss(part), *n as u64);
        accumulator.add(net, gradients);
        start += n;
    }
    accumulator.finish()
}

/// Returns the global norm of the difference over the global norm of `expected`.
fn relative_difference(net: &Net, expected: &GradientsParams, actual: &GradientsParams, device: &Device) -> f64 {
    let mut difference = GradientsParams::new();
    let mut subtract = |id, d: usize| match d {
        1 => difference.register::<1>(id, expected.get::<1>(id).unwrap() - actual.get::<1>(id).unwrap()),
        2 => difference.register::<2>(id, expected.get::<2>(id).unwrap() - actual.get::<2>(id).unwrap()),
        _ => difference.register::<4>(id, expected.get::<4>(id).unwrap() - actual.get::<4>(id).unwrap()),
    };
    subtract(net.conv.weight.id, 4);
    subtract(net.conv.bias.as_ref().unwrap().id, 1);
    subtract(net.linear.weight.id, 2);
    subtract(net.linear.bias.as_ref().unwrap().id, 1);
    let norm = |it: &GradientsParams| squared_norm(net, it, device).into_scalar::<f64>().sqrt();
    norm(&difference) / norm(expected)
}

#[test]
fn any_split_of_the_same_samples_has_the_gradient_of_the_undivided_step() {
    let device = Device::flex().autodiff();
    device.seed(7);
    let net = Net::init(&device);
    let images = Tensor::random([23, 3, 6, 6], Distribution::Normal(0.0, 1.0), &device);
    let whole = gradients(&net, &images, &[23]);
    for sizes in [vec![12, 11], vec![16, 7], vec![1; 23], vec![5, 5, 5, 5, 3], vec![22, 1]] {
        let parts = gradients(&net, &images, &sizes);
        let difference = relative_difference(&net, &whole, &parts, &device);
        assert!(difference < 1e-5, "{sizes:?}: {difference:e}");
    }
}

#[test]
fn an_unweighted_sum_of_ragged_parts_would_be_noticed() {
    let device = Device::flex().autodiff();
    device.seed(7);
    let net = Net::init(&device);
    let images = Tensor::random([23, 3, 6, 6], Distribution::Normal(0.0, 1.0), &device);
    let whole = gradients(&net, &images, &[23]);
    // Every part weighs half, as if the parts were equal.
    let mut unweighted = WeightedAccumulator::new(2);
    for part in [0..22, 22..23] {
        let loss = net.mean_loss(images.clone().narrow(0, part.start, part.len()));
        let gradients = unweighted.backward(&net, &loss, 1);
        unweighted.add(&net, gradients);
    }
    assert!(relative_difference(&net, &whole, &unweighted.finish(), &device) > 1e-2);
}
