//! What is packed for products of matrices, in bounds of batches that were not read.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../probe/tests/alone/mod.rs"]
mod alone;

use alone::alone;
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use plimsoll_predict::{PartReading, Phase, Predictor, PredictorConfig};
use plimsoll_probe::{DeviceKind, Probe, TrackingAllocator, open};
use plimsoll_train::{beside_tensors, program_keys, warm_up};
use plimsoll_types::{Bytes, Observation, StepShape};

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

/// Batches, the smaller ones of which pack in one piece.
const SIZES: [u32; 16] = [1, 7, 64, 128, 200, 320, 384, 512, 520, 640, 768, 1024, 1032, 1280, 2048, 3000];

/// Those that are read.
const READ: [[u32; 3]; 4] = [[1, 1032, 3000], [1, 640, 1280], [1, 320, 3000], [7, 520, 2048]];

#[derive(Module, Debug)]
struct Net {
    first: Linear,
    last: Linear,
}

/// Reads a pass forward and back.
fn read(net: &Net, samples: u32, (probe, device): (&mut dyn Probe, &Device)) -> PartReading {
    let [wide, _] = net.first.weight.dims();
    let resident = probe.read().unwrap().in_use;
    probe.reset_peak().unwrap();
    let rows = Tensor::<2>::ones([samples as usize, wide], device);
    let loss = net.last.forward(net.first.forward(rows).tanh()).powi_scalar(2).mean();
    drop(loss.backward());
    let after = probe.read().unwrap();
    let shape = StepShape::new(samples, 1);
    PartReading::from(Observation { shape, resident, peak: after.peak }).with_packed(after.packed)
}

#[test]
fn no_batch_needs_more_than_the_bound_from_others_whatever_is_packed_for_its_products() {
    let _alone = alone();
    let (kind, device) = (DeviceKind::Flex, Device::flex());
    warm_up(kind, &device);
    let (mut probe, device) = (open(kind, None).unwrap(), device.autodiff());
    let config = PredictorConfig { beside: beside_tensors(kind), ..PredictorConfig::default() };
    let key = program_keys(kind, &device, &probe.name()).key(Phase::Train, StepShape::new(64, 1));
    let mut n_unbounded = 0;
    // Each packs more than the one before it, since what was packed is never forgotten.
    for [wide, hidden, out] in [[64, 64, 250], [784, 256, 10], [2048, 128, 33]] {
        let layer = |from, to| LinearConfig::new(from, to).init(&device);
        let net = Net { first: layer(wide, hidden), last: layer(hidden, out) };
        for known in READ {
            let mut known_to = Predictor::try_new(config).unwrap();
            let mut without = known_to.clone();
            // Twice, since what a product has packed is known when the next one begins.
            for n in known.into_iter().cycle().take(2 * known.len()) {
                let read = read(&net, n, (&mut *probe, &device));
                // A violation would lift the bounds that are tried.
                assert!(!known_to.observe(key, read).unwrap().violated, "{n} of {known:?}");
                assert!(!without.observe(key, read.with_packed(Bytes::ZERO)).unwrap().violated, "{n} of {known:?}");
            }
            for n in SIZES {
                let read = read(&net, n, (&mut *probe, &device));
                let upper = |it: &Predictor| it.predict(key, read.shape, read.before).unwrap().upper;
                let peak = read.peak.bytes();
                assert!(peak <= upper(&known_to), "{n} by {wide}: {peak} of {}, with {known:?}", upper(&known_to));
                n_unbounded += u32::from(upper(&without) < peak);
            }
        }
    }
    let packs = cfg!(target_arch = "x86_64");
    assert!(0 < n_unbounded || !packs, "none would need what is packed on top, so that nothing is tested");
}
