//! What threads take for products of matrices and for convolutions, in bounds of batches that were not read.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../probe/tests/alone/mod.rs"]
mod alone;

use std::sync::Once;

use alone::alone;
use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::{Device, Tensor};
use plimsoll_predict::{Key, PartReading, Phase, Predictor, PredictorConfig};
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

impl Net {
    fn loss(&self, samples: u32, device: &Device) -> Tensor<1> {
        let [wide, _] = self.first.weight.dims();
        let rows = Tensor::<2>::ones([samples as usize, wide], device);
        self.last.forward(self.first.forward(rows).tanh()).powi_scalar(2).mean()
    }
}

/// Flex works out the gradient of its second input a sample at a time, with a buffer of 288 numbers for each pixel; from 8 192
/// pixels on in several threads, each of which has a buffer.
#[derive(Module, Debug)]
struct Filters {
    first: Conv2d,
    last: Conv2d,
}

impl Filters {
    fn init(device: &Device) -> Self {
        let layer = |channels| Conv2dConfig::new(channels, [3, 3]).with_padding(PaddingConfig2d::Same).init(device);
        Self { first: layer([3, 32]), last: layer([32, 1]) }
    }

    fn loss(&self, shape: StepShape, device: &Device) -> Tensor<1> {
        let [samples, side] = [shape.samples, shape.extent().edge()].map(|it| it as usize);
        let images = Tensor::<4>::ones([samples, 3, side, side], device);
        self.last.forward(self.first.forward(images).tanh()).powi_scalar(2).mean()
    }
}

/// Reads a pass forward and back.
fn read(shape: StepShape, probe: &mut dyn Probe, loss: impl FnOnce() -> Tensor<1>) -> PartReading {
    probe.reset_peak().unwrap();
    let resident = probe.read().unwrap().in_use;
    drop(loss().backward());
    let after = probe.read().unwrap();
    PartReading::from(Observation { shape, resident, peak: after.peak }).with_packed(after.packed)
}

/// Starts Flex's threads, and returns its probe, a device with gradients and a predictor that knows nothing.
///
/// There are fewer threads than samples in any batch of images: what one takes varies where those that wait for a sample begin
/// another.
fn start() -> (Box<dyn Probe>, Device, Predictor) {
    static POOL: Once = Once::new();
    POOL.call_once(|| rayon::ThreadPoolBuilder::new().num_threads(4).build_global().unwrap());
    let (kind, device) = (DeviceKind::Flex, Device::flex());
    warm_up(kind, &device);
    let config = PredictorConfig { beside: beside_tensors(kind), ..PredictorConfig::default() };
    (open(kind, None).unwrap(), device.autodiff(), Predictor::try_new(config).unwrap())
}

fn key(device: &Device, shape: StepShape) -> Key {
    program_keys(DeviceKind::Flex, device, "").key(Phase::Train, shape)
}

#[test]
fn no_batch_needs_more_than_the_bound_from_others_whatever_is_packed_for_its_products() {
    let _alone = alone();
    let (mut probe, device, empty) = start();
    let key = key(&device, StepShape::new(64, 1));
    let mut n_unbounded = 0;
    // Each packs more than the one before it, since what was packed is never forgotten.
    for [wide, hidden, out] in [[64, 64, 250], [784, 256, 10], [2048, 128, 33]] {
        let layer = |from, to| LinearConfig::new(from, to).init(&device);
        let net = Net { first: layer(wide, hidden), last: layer(hidden, out) };
        for known in READ {
            let [mut known_to, mut without] = [empty.clone(), empty.clone()];
            // Twice, since what a product has packed is known when the next one begins.
            for n in known.into_iter().cycle().take(2 * known.len()) {
                let read = read(StepShape::new(n, 1), &mut *probe, || net.loss(n, &device));
                // A violation would lift the bounds that are tried.
                assert!(!known_to.observe(key, read).unwrap().violated, "{n} of {known:?}");
                // On some processors one of these needs more already.
                let unpacked = without.observe(key, read.with_packed(Bytes::ZERO)).unwrap();
                n_unbounded += u32::from(unpacked.violated);
            }
            for n in SIZES {
                let read = read(StepShape::new(n, 1), &mut *probe, || net.loss(n, &device));
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

#[test]
fn no_batch_needs_more_than_the_bound_from_others_whether_or_not_it_is_divided_among_threads() {
    let _alone = alone();
    let (mut probe, device, mut known) = start();
    let net = Filters::init(&device);
    let mut read = |samples, side| {
        let shape = StepShape::new(samples, side);
        let mut pass = || read(shape, &mut *probe, || net.loss(shape, &device));
        // What others take beside a thread is known when the next pass begins.
        let packed = pass().packed;
        (key(&device, shape), pass().with_packed(packed))
    };
    for (samples, side) in [(5, 16), (9, 16), (5, 32), (7, 32), (6, 24), (16, 16)] {
        let (key, read) = read(samples, side);
        assert!(!known.observe(key, read).unwrap().violated, "{samples} of {side}");
    }
    for (samples, side) in [(8, 32), (12, 32), (5, 48), (8, 48), (16, 24), (24, 24), (40, 16), (5, 64)] {
        let (key, read) = read(samples, side);
        known.note_packed(read.packed);
        let (peak, upper) = (read.peak.bytes(), known.predict(key, read.shape, read.before).unwrap().upper);
        assert!(peak <= upper, "{samples} of {side}: {peak} of {upper}");
    }
}
