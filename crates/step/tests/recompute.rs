//! What passes come to that recompute activations.

use burn::module::Module;
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Int, Tensor, activation};
use plimsoll_step::recomputing;

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
        let hidden = activation::relu(self.norm.forward(self.first.forward(rows)).sin().sin().sin());
        self.second.forward(hidden).powi_scalar(2).mean()
    }
}

#[test]
fn gradients_are_those_of_passes_that_keep_activations_and_belong_to_the_same_weights() {
    let device = Device::flex().autodiff();
    device.seed(3);
    let net = Net::new(&device);
    let gradients = |loss: Tensor<1>| GradientsParams::from_grads(loss.backward(), &net);
    let kept = gradients(net.mean_loss(&device));
    let again = gradients(recomputing(true, &net, &device, Net::mean_loss));
    for weight in [&net.first.weight, &net.second.weight] {
        let of = |all: &GradientsParams| all.get::<2>(weight.id).unwrap().into_data();
        assert_eq!(of(&kept), of(&again));
        assert!(of(&kept).iter::<f32>().any(|it| it != 0.0));
    }
    // The model itself is as it was, and passes of both kinds may follow.
    assert_eq!(gradients(net.mean_loss(&device)).len(), kept.len());
    drop(recomputing(true, &net, &device, Net::mean_loss));
}

#[test]
fn running_statistics_come_to_what_they_come_to_without() {
    let device = Device::flex().autodiff();
    let means = [[false; 3], [true, false, true], [true; 3]].map(|signs| {
        device.seed(3);
        let net = Net::new(&device);
        signs.into_iter().for_each(|is_on| drop(recomputing(is_on, &net, &device, Net::mean_loss)));
        net.norm.running_mean.value_sync().into_data()
    });
    assert!(means[0].iter::<f32>().any(|it| it != 0.0));
    assert_eq!([&means[1], &means[2]], [&means[0]; 2]);
}
