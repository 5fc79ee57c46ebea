//! A guarded step on a Vulkan device, where one is installed; a software driver will do.
#![cfg(feature = "vulkan")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../probe/tests/alone/mod.rs"]
mod alone;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use alone::alone;
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::activation::relu;
use burn::tensor::{Device, Distribution, Tensor, TensorData};
use plimsoll_predict::{Dtype, Keys, Platform, PredictorConfig};
use plimsoll_probe::{DeviceKind, Probe, ProbeError, open};
use plimsoll_step::{GuardedStep, Loss, ProgramNeeds, StepError, StepOutcome, StepRequest};
use plimsoll_train::open_device;
use plimsoll_types::{Budget, Bytes, Knobs, MemoryReading, Recompute, StepShape};

/// Values per sample, so that 64 samples take 1 MiB, and few samples need several pages: sums over many samples would
/// differ by more rounding between a whole and its halves.
const WIDTH: usize = 4096;

/// What the runtime stages between host and device comes on top of the pages, and varies by less than a page.
const STAGING: Bytes = Bytes::mib(2);

/// Opens probe and device under one name, or says why the test is skipped.
fn device() -> Option<(Box<dyn Probe>, Device)> {
    match open(DeviceKind::Vulkan(0), None) {
        Ok(probe) => Some((probe, open_device(DeviceKind::Vulkan(0)).unwrap())),
        Err(error @ ProbeError::NoDevice { .. }) => {
            eprintln!("skipped: failed to {error}");
            None
        }
        Err(error) => panic!("failed to {error}"),
    }
}

/// Scales values twice: software multiplies matrices slowly, and wrongly.
#[derive(Module, Debug)]
struct Net {
    first: Param<Tensor<2>>,
    second: Param<Tensor<2>>,
}

impl Net {
    fn init(device: &Device) -> Self {
        device.seed(7);
        let scales = || Param::from_tensor(Tensor::random([1, WIDTH], Distribution::Default, device));
        Self { first: scales(), second: scales() }
    }

    fn mean_loss(&self, samples: Range<usize>, device: &Device) -> Tensor<1> {
        let value = |at: usize| ((at * 31 + at / WIDTH) % 17) as f32 / 17.0;
        let values: Vec<f32> = (samples.start * WIDTH..samples.end * WIDTH).map(value).collect();
        let input = Tensor::<2>::from_data(TensorData::new(values, [samples.len(), WIDTH]), device);
        let output = relu(input.clone() * self.first.val()) * self.second.val();
        (output - input).powi_scalar(2).mean()
    }
}

/// Runs one step of `n_samples` at once, if the measured peak stays within `capacity`.
fn step(guarded: &mut GuardedStep, net: &Net, device: &Device, n_samples: u32, capacity: Bytes) -> StepOutcome {
    let knobs = Knobs { patch_size: 1, micro_batch_size: n_samples };
    let request = StepRequest::of_edge(n_samples as usize, knobs, Budget { capacity, budget: capacity });
    let mean_loss = |net: &Net, samples| Loss::from(net.mean_loss(samples, device));
    guarded.attempt(net, &request, &|_, _| None, &mean_loss).unwrap()
}

/// Returns the global norm of the difference over the global norm of `expected`.
fn relative_difference(net: &Net, expected: &GradientsParams, actual: &GradientsParams) -> f64 {
    struct Sums<'a> {
        expected: &'a GradientsParams,
        actual: &'a GradientsParams,
        difference: f64,
        norm: f64,
    }
    impl ModuleVisitor for Sums<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let read = |it: &GradientsParams| -> Vec<f64> {
                it.get::<D>(param.id).unwrap().into_data().iter::<f64>().collect()
            };
            let (expected, actual) = (read(self.expected), read(self.actual));
            self.difference += expected.iter().zip(&actual).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
            self.norm += expected.iter().map(|it| it.powi(2)).sum::<f64>();
        }
    }
    let mut sums = Sums { expected, actual, difference: 0.0, norm: 0.0 };
    net.visit(&mut sums);
    (sums.difference / sums.norm).sqrt()
}

#[test]
fn a_step_that_is_too_large_for_the_cap_is_split_and_has_the_same_gradient() {
    let _alone = alone();
    let Some((probe, device)) = device() else { return };
    let net = Net::init(&device);
    let mut guarded = GuardedStep::new(probe, device.clone());
    // The first step fixes the size of pages, and holds those that it has outgrown meanwhile.
    step(&mut guarded, &net, &device, 256, Bytes::gib(1));
    guarded.forget_pages();
    let whole = step(&mut guarded, &net, &device, 256, Bytes::gib(1));
    assert_eq!((whole.parts.len(), guarded.take_failures()), (1, Vec::new()));
    // Input and output are 4 MiB each, and the probe sees them only under the name that the tensors live under.
    assert!(whole.peak >= whole.resident.saturating_add(Bytes::mib(8)), "{} {}", whole.resident, whole.peak);

    let parts = step(&mut guarded, &net, &device, 256, whole.peak.saturating_sub(STAGING));
    assert!(parts.parts.len() > 1, "{:?}", parts.parts);
    let failures = guarded.take_failures();
    assert!(failures.iter().any(|it| it.shape == StepShape::new(256, 1)), "{failures:?}");
    assert!(parts.peak < whole.peak, "{} {}", parts.peak, whole.peak);
    let difference = relative_difference(&net, &whole.gradients, &parts.gradients);
    assert!(difference < 1e-5, "{difference:e}");
    let (loss, of_parts) = (whole.loss.unwrap(), parts.loss.unwrap());
    assert!((loss - of_parts).abs() < 1e-5 * loss, "{loss} {of_parts}");
}

#[test]
fn the_peak_of_a_smaller_step_is_not_that_of_the_larger_one_before_it() {
    let _alone = alone();
    let Some((probe, device)) = device() else { return };
    let net = Net::init(&device);
    let mut guarded = GuardedStep::new(probe, device.clone());
    // The first step fixes the size of pages, and holds those that it has outgrown meanwhile.
    step(&mut guarded, &net, &device, 256, Bytes::gib(1));
    guarded.forget_pages();
    let peaks = [256, 32, 32, 256].map(|n| step(&mut guarded, &net, &device, n, Bytes::gib(1)).peak);
    let differs = |a: usize, b: usize| STAGING < Bytes(peaks[a].0.abs_diff(peaks[b].0));
    assert!(peaks[1] < peaks[0] && differs(0, 1), "{peaks:?}");
    assert!(!differs(1, 2), "steps of one shape need the same: {peaks:?}");
    assert!(!differs(0, 3), "and again after another shape: {peaks:?}");
}

/// Counts how often pages go back to the device.
struct Counted(Box<dyn Probe>, Arc<AtomicUsize>);

impl Probe for Counted {
    fn name(&self) -> String {
        self.0.name()
    }

    fn read(&self) -> Result<MemoryReading, ProbeError> {
        self.0.read()
    }

    fn reset_peak(&mut self) -> Result<(), ProbeError> {
        self.0.reset_peak()
    }

    fn has_exact_peak(&self) -> bool {
        self.0.has_exact_peak()
    }

    fn capacity(&self) -> Result<Bytes, ProbeError> {
        self.0.capacity()
    }

    fn largest_allocation(&self) -> Result<Bytes, ProbeError> {
        self.0.largest_allocation()
    }

    fn cleanup(&mut self) -> Result<(), ProbeError> {
        self.1.fetch_add(1, Relaxed);
        self.0.cleanup()
    }
}

/// Takes steps of shapes that change all the time, and returns how often pages went back, the highest peak, and the losses.
fn take_mixed(is_mixed: bool, budget: Bytes) -> Option<(usize, Bytes, Vec<f64>)> {
    const SHAPES: [(usize, u32); 4] = [(64, 1), (20, 2), (8, 4), (12, 1)];
    let (probe, device) = device()?;
    let cleanups = Arc::new(AtomicUsize::new(0));
    let guarded = GuardedStep::new(Box::new(Counted(probe, Arc::clone(&cleanups))), device.clone());
    let mut guarded = if is_mixed { guarded.of_mixed_shapes() } else { guarded };
    let platform = Platform { device: 0, dtype: Dtype::F32, fusion: false, autotune: false };
    let keys = Keys { recompute: Recompute::NEVER, platform, small_batch: 0 };
    let mut needs = ProgramNeeds::try_new(keys, PredictorConfig::default(), false).unwrap();
    let (net, mut peak, mut losses) = (Net::init(&device), Bytes::ZERO, Vec::new());
    for step in 0..12 {
        let (n_samples, edge) = SHAPES[(step + step / 5) % 4];
        let budget = Budget { capacity: Bytes::gib(1), budget };
        let request = StepRequest::of_edge(n_samples, Knobs { patch_size: edge, micro_batch_size: u32::MAX }, budget);
        let mean_loss = |net: &Net, samples: Range<usize>| {
            let times = samples.start * edge as usize..samples.end * edge as usize;
            Loss::from(net.mean_loss(times, &device))
        };
        let predict = |shape: StepShape, resident| needs.predict(shape, resident);
        let outcome = guarded.attempt(&net, &request, &predict, &mean_loss).unwrap();
        assert_eq!(guarded.take_failures(), []);
        for reached in outcome.parts.iter().filter_map(|it| it.beside) {
            assert!(
                outcome.peak <= reached.upper && reached.upper <= budget.budget,
                "{step}: {} {reached:?}",
                outcome.peak
            );
        }
        losses.push(outcome.loss.unwrap());
        peak = peak.max(outcome.peak);
        needs.learn(&outcome.parts, Bytes::ZERO);
    }
    Some((cleanups.load(Relaxed), peak, losses))
}

#[test]
fn steps_of_mixed_shapes_keep_pages_where_all_together_fit() {
    let _alone = alone();
    let Some((cleanups, peak, losses)) = take_mixed(false, Bytes::gib(1)) else { return };
    let (of_mixed, peak_of_mixed, losses_of_mixed) = take_mixed(true, Bytes::gib(1)).unwrap();
    assert!(of_mixed <= 6 && cleanups == 12, "{of_mixed} of {cleanups}, peaks {peak_of_mixed} and {peak}");
    assert_eq!(losses_of_mixed, losses);
    // Where one alone just fits, no two are kept.
    let (of_tight, peak_of_tight, _) = take_mixed(true, peak).unwrap();
    assert!(
        of_mixed < of_tight && peak_of_tight <= peak.saturating_add(STAGING),
        "{of_tight}: {peak_of_tight} of {peak}"
    );
}

#[test]
fn one_sample_that_never_fits_ends_with_the_numbers() {
    let _alone = alone();
    let Some((probe, device)) = device() else { return };
    let net = Net::init(&device);
    let mut guarded = GuardedStep::new(probe, device.clone());
    let budget = Budget { capacity: Bytes::mib(1), budget: Bytes::mib(1) };
    let knobs = Knobs { patch_size: 1, micro_batch_size: 2 };
    let request = StepRequest::of_edge(2, knobs, budget);
    let mean_loss = |net: &Net, samples| Loss::from(net.mean_loss(samples, &device));
    let ran = guarded.attempt(&net, &request, &|_, _| None, &mean_loss);
    let Err(error @ StepError::NeverFits { .. }) = ran else { panic!("a step of more than 1 MiB ran in 1 MiB") };
    assert!(error.to_string().contains("(capacity 1.00 MiB)"), "{error}");
}
