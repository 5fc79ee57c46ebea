//! Volumes, whose tensors grow with the cube of their side, under bounds that know it.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../probe/tests/alone/mod.rs"]
mod alone;

use alone::alone;
use burn::module::Module;
use burn::nn::PaddingConfig3d;
use burn::nn::conv::{Conv3d, Conv3dConfig};
use burn::optim::{AdamConfig, ModuleOptimizer};
use burn::tensor::{Device, Tensor};
use plimsoll::{Bytes, Features, Prediction, TrackingAllocator};

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

/// Volumes of a step.
const N: usize = 8;

#[derive(Module, Debug)]
struct Net {
    first: Conv3d,
    last: Conv3d,
}

impl Net {
    fn make(device: &Device) -> (Self, ModuleOptimizer) {
        let conv = |channels| {
            Conv3dConfig::new(channels, [3, 3, 3]).with_padding(PaddingConfig3d::Explicit(1, 1, 1)).init(device)
        };
        (Self { first: conv([1, 8]), last: conv([8, 1]) }, AdamConfig::new().init())
    }

    fn loss(&self, volumes: Tensor<5>) -> Tensor<1> {
        (self.last.forward(self.first.forward(volumes.clone()).tanh()) - volumes).powi_scalar(2).mean()
    }
}

fn volumes(n: usize, side: usize, device: &Device) -> Tensor<5> {
    Tensor::ones([n, 1, side, side, side], device)
}

/// What steps of small volumes bound a step of large ones by, with the default features or others, and that one's peak.
fn bounded(features: Option<Features>) -> (Prediction, Bytes) {
    let device = Device::flex().autodiff();
    let (net, optimizer) = Net::make(&device);
    let mut step = plimsoll::step(&device, net, optimizer);
    if let Some(features) = features {
        step = step.features(features);
    }
    let mut step = step.build().unwrap();
    let mut run = |side: u32| {
        let bound = step.predict(u32::try_from(N).unwrap(), side).unwrap();
        let loss = |net: &Net, part: Vec<u32>| net.loss(volumes(part.len(), side as usize, &device));
        (bound, step.run_by(&[side; N], |it| *it, 1e-3, loss).unwrap().peak)
    };
    // The second finds the moments of the optimizer.
    run(8);
    run(8);
    let (bound, peak) = run(24);
    (bound.unwrap(), peak)
}

#[test]
fn small_volumes_bound_large_ones_where_their_features_are_named_and_only_there() {
    let _alone = alone();
    let (bound, peak) = bounded(Some(Features::powers(3)));
    assert!(peak <= bound.upper, "{peak} of {}", bound.upper);
    let (bound, peak) = bounded(None);
    assert!(bound.upper < peak, "the default would do: {peak} of {}", bound.upper);
}

#[test]
fn features_over_several_axes_are_refused() {
    let device = Device::flex().autodiff();
    let make = || Net::make(&device);
    let blank = |n, side| volumes(n, side, &device);
    let (net, optimizer) = make();
    let of_volume = Features::complete(3);
    let refused = [
        plimsoll::step(&device, net, optimizer).features(of_volume).build().err(),
        plimsoll::plan(&device, make, blank, Net::loss).shapes([(1, 8)]).features(of_volume).run().err(),
        plimsoll::find_batch_size(&device, make, blank, Net::loss).features(of_volume).run().err(),
    ];
    for error in refused {
        let error = error.unwrap().to_string();
        assert!(error.contains("name features over one axis, the length of a sample: these are over 3"), "{error}");
    }
}
