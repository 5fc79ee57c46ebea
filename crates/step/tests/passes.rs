//! What passes come to that recompute activations, or compute in 16 bits.

#[path = "../../probe/tests/alone/mod.rs"]
mod alone;

use alone::alone;
use burn::module::Module;
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Device, Int, Tensor, activation};
use plimsoll_predict::{Dtype, Key, Phase, Platform};
use plimsoll_step::pass_as;

#[global_allocator]
static HEAP: plimsoll_probe::TrackingAllocator = plimsoll_probe::TrackingAllocator::new();

#[derive(Module, Debug)]
struct Net {
    first: Linear,
    norm: BatchNorm,
    second: Linear,
}

impl Net {
    fn new(device: &Device) -> Self {
        Self {
            first: LinearConfig::new(4, 64).init(device),
            norm: BatchNormConfig::new(64).init(device),
            second: LinearConfig::new(64, 1).init(device),
        }
    }

    fn mean_loss(&self, device: &Device) -> Tensor<1> {
        let rows = Tensor::<1, Int>::arange(0..256, device).float().sin().reshape([64, 4]);
        let rows = self.first.forward(rows.cast(self.first.weight.dtype()));
        let hidden = activation::relu(self.norm.forward(rows).sin().sin().sin());
        self.second.forward(hidden).cast(DType::F32).powi_scalar(2).mean()
    }
}

fn key(checkpointing: bool, dtype: Dtype) -> Key {
    Key { phase: Phase::Train, checkpointing, platform: Platform { dtype, ..Platform::default() }, regime: 0 }
}

const USUAL: (bool, Dtype) = (false, Dtype::F32);
const SPARING: (bool, Dtype) = (true, Dtype::F32);
const HALF: (bool, Dtype) = (false, Dtype::Bf16);

/// The gradients of the two matrices, in the format of these.
fn gradients(net: &Net, device: &Device, (checkpointing, dtype): (bool, Dtype)) -> [Vec<f32>; 2] {
    let loss = pass_as(key(checkpointing, dtype), net, device, Net::mean_loss);
    let gradients = GradientsParams::from_grads(loss.backward(), net);
    [&net.first.weight, &net.second.weight].map(|weight| {
        let gradient = gradients.get::<2>(weight.id).expect("a gradient of the weight itself");
        assert_eq!(gradient.dtype(), DType::F32);
        gradient.into_data().iter().collect()
    })
}

#[test]
fn gradients_are_those_of_passes_that_keep_activations_and_belong_to_the_same_weights() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    device.seed(3);
    let net = Net::new(&device);
    let kept = gradients(&net, &device, USUAL);
    assert!(kept.iter().flatten().any(|it| *it != 0.0));
    assert_eq!(gradients(&net, &device, SPARING), kept);
    // The model itself is as it was, and passes of any kind may follow.
    assert_eq!(gradients(&net, &device, USUAL), kept);
    drop(gradients(&net, &device, SPARING));
}

#[test]
fn passes_in_16_bits_have_nearly_the_same_gradients_in_32() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    device.seed(3);
    let net = Net::new(&device);
    let (whole, half) = (gradients(&net, &device, USUAL), gradients(&net, &device, HALF));
    let both_half = gradients(&net, &device, (true, Dtype::Bf16));
    let norm = |it: &mut dyn Iterator<Item = f32>| it.map(|it| it * it).sum::<f32>().sqrt();
    let size = norm(&mut whole.iter().flatten().copied());
    for (one, other) in [(&whole, &half), (&half, &both_half)] {
        let apart = norm(&mut one.iter().flatten().zip(other.iter().flatten()).map(|(a, b)| a - b));
        // A number of 8 bits is right to one part in 256, and some errors add up.
        assert!(apart < 0.1 * size, "{apart} of {size}");
    }
    assert_ne!(whole, half, "it computed in 32 bits");
}

#[test]
fn running_statistics_come_to_what_they_come_to_without() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let means = [[USUAL; 3], [SPARING, USUAL, SPARING], [SPARING; 3], [HALF, USUAL, HALF]].map(|kinds| {
        device.seed(3);
        let net = Net::new(&device);
        for (checkpointing, dtype) in kinds {
            drop(pass_as(key(checkpointing, dtype), &net, &device, Net::mean_loss));
        }
        net.norm.running_mean.value_sync().into_data().iter::<f32>().collect::<Vec<_>>()
    });
    assert!(means[0].iter().any(|it| *it != 0.0));
    assert_eq!([&means[1], &means[2]], [&means[0]; 2]);
    assert!(means[3].iter().zip(&means[0]).all(|(half, whole)| (half - whole).abs() < 0.02));
}
