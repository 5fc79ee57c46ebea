//! What forward passes change belongs to the step: it stays where that happens, and nowhere else.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Tensor};
use plimsoll_probe::{DeviceKind, TrackingAllocator, open};
use plimsoll_step::{
    Commit, GuardedStep, Loss, OptimizerRecovery, Rescale, StepError, StepOutcome, StepRequest, TrainState, Update,
    squared_norm,
};
use plimsoll_types::{Budget, Bytes, Knobs};

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator::new();

static DRAWING: Mutex<()> = Mutex::new(());

const N_SAMPLES: usize = 8;
const WIDTH: usize = 4;

#[derive(Module, Debug)]
struct Net {
    layer: Linear,
    norm: BatchNorm,
}

impl Net {
    fn mean_loss(&self, samples: Tensor<2>) -> Tensor<1> {
        let hidden = self.layer.forward(samples).unsqueeze_dim::<3>(2);
        (self.norm.forward(hidden) - 0.5).powi_scalar(4).mean()
    }
}

/// Collects what a checkpoint would hold of the statistics.
#[derive(Default)]
struct Saved(Vec<f32>);

impl ModuleVisitor for Saved {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if !param.base().is_require_grad() {
            self.0.extend(param.base().into_data().iter::<f32>());
        }
    }
}

struct Bench {
    step: GuardedStep,
    state: TrainState<Net>,
    samples: Tensor<2>,
}

impl Bench {
    fn new() -> Self {
        // Whoever draws weights in another test draws from the same generator.
        let _alone = DRAWING.lock().unwrap_or_else(PoisonError::into_inner);
        let device = Device::flex().autodiff();
        device.seed(5);
        let values: Vec<f32> = (0..N_SAMPLES * WIDTH).map(|at| (at * at % 7) as f32 - 2.0).collect();
        let samples = Tensor::<1>::from_floats(&*values, &device).reshape([N_SAMPLES, WIDTH]);
        let net = Net { layer: LinearConfig::new(WIDTH, 3).init(&device), norm: BatchNormConfig::new(3).init(&device) };
        drop(net.layer.forward(samples.clone()));
        let step = GuardedStep::new(open(DeviceKind::Flex, None).unwrap(), device);
        Self { step, state: TrainState::new(net, AdamConfig::new().init()), samples }
    }

    fn saved(&self) -> Vec<f32> {
        let mut saved = Saved::default();
        self.state.model().visit(&mut saved);
        saved.0
    }

    fn request(micro_batch_size: u32, capacity: Bytes) -> StepRequest {
        StepRequest::of_edge(
            N_SAMPLES,
            Knobs { patch_size: 1, micro_batch_size },
            Budget { capacity, budget: capacity },
        )
    }

    /// Attempts a step whose forward passes of more than `most` samples run out of memory at their end.
    fn attempt(&mut self, request: &StepRequest, most: usize) -> Result<StepOutcome, StepError> {
        let samples = self.samples.clone();
        let mean_loss = |net: &Net, part: Range<usize>| {
            let loss = net.mean_loss(samples.clone().slice([part.clone()]));
            assert!(part.len() <= most, "can't allocate buffer of size: 4096");
            Loss::from(loss)
        };
        self.step.attempt(self.state.model(), request, &|_, _| None, &mean_loss)
    }

    fn commit(&mut self, outcome: StepOutcome, capacity: Bytes, recovery: OptimizerRecovery) -> Commit {
        let update = Update { gradients: outcome.gradients, rate: 0.1.into(), capacity, recovery };
        self.step.commit(&mut self.state, update).unwrap()
    }
}

const ROOM: Bytes = Bytes::gib(1);

#[test]
fn statistics_that_a_step_has_changed_are_those_that_are_saved_and_those_that_are_validated() {
    let (mut bench, mut plain) = (Bench::new(), Bench::new());
    let outcome = bench.attempt(&Bench::request(8, ROOM), N_SAMPLES).unwrap();
    assert!(matches!(bench.commit(outcome, ROOM, OptimizerRecovery::Restore), Commit::Done { .. }));
    let norm = &bench.state.model().valid().norm;
    let validated: Vec<f32> = [&norm.running_mean, &norm.running_var]
        .into_iter()
        .flat_map(|it| it.value().into_data().iter::<f32>().collect::<Vec<_>>())
        .collect();
    assert_eq!(bench.saved(), validated);
    // They are those of a loop of one's own.
    let plain =
        std::mem::replace(&mut plain.state, TrainState::new(bench.state.model().clone(), AdamConfig::new().init()));
    drop(plain.model().mean_loss(bench.samples.clone()).backward());
    let own = plain.model().valid().norm;
    assert_eq!(bench.saved()[..3], own.running_mean.value().into_data().iter::<f32>().collect::<Vec<_>>()[..]);
}

#[test]
fn a_part_that_ran_out_of_memory_leaves_no_trace_in_statistics() {
    let (mut failing, mut halved) = (Bench::new(), Bench::new());
    failing.attempt(&Bench::request(8, ROOM), 2).unwrap();
    assert_eq!(failing.step.take_failures().iter().map(|it| it.shape.samples).collect::<Vec<_>>(), [8, 8, 4, 4]);
    halved.attempt(&Bench::request(2, ROOM), N_SAMPLES).unwrap();
    assert_eq!(failing.saved(), halved.saved());
}

#[test]
fn a_step_that_does_not_happen_leaves_no_trace_in_statistics() {
    let mut bench = Bench::new();
    let before = bench.saved();
    assert!(matches!(bench.attempt(&Bench::request(8, ROOM), 0), Err(StepError::NeverFits { .. })));
    assert_eq!(bench.saved(), before);
    // The optimizer's step runs out of memory.
    let outcome = bench.attempt(&Bench::request(2, ROOM), N_SAMPLES).unwrap();
    assert_ne!(bench.saved(), before);
    let committed = bench.commit(outcome, Bytes(1), OptimizerRecovery::Keep);
    assert!(matches!(committed, Commit::OutOfMemory { is_back: true, .. }), "{committed:?}");
    assert_eq!(bench.saved(), before);
    // Somebody decides against it.
    drop(bench.attempt(&Bench::request(2, ROOM), N_SAMPLES).unwrap());
    bench.step.discard(bench.state.model());
    assert_eq!(bench.saved(), before);
}

fn norm(bench: &Bench, gradients: &GradientsParams) -> f64 {
    squared_norm(bench.state.model(), gradients, &bench.samples.device()).into_scalar::<f64>().sqrt()
}

fn gradient(bench: &Bench, outcome: &StepOutcome) -> Vec<f32> {
    outcome.gradients.get::<2>(bench.state.model().layer.weight.id).unwrap().into_data().iter().collect()
}

#[test]
fn gradients_that_passes_make_themselves_are_weighed_as_those_of_losses() {
    let (mut losses, mut own) = (Bench::new(), Bench::new());
    for (micro_batch, tolerance) in [(8, 0.0), (3, 1e-5)] {
        let request = Bench::request(micro_batch, ROOM);
        let expected = losses.attempt(&request, N_SAMPLES).unwrap();
        let (samples, n_parts) = (own.samples.clone(), Cell::new(0));
        let mean_gradients = |net: &Net, part: Range<usize>| {
            n_parts.set(n_parts.get() + 1);
            let loss = net.mean_loss(samples.clone().slice([part.clone()]));
            (GradientsParams::from_grads(loss.backward(), net), part.len())
        };
        let done = own.step.attempt_gradients(own.state.model(), &request, &|_, _| None, &mean_gradients).unwrap();
        let (done, sizes) = done;
        // What passes make besides comes back for each part.
        assert_eq!(sizes, done.parts.iter().map(|it| it.part.samples.len()).collect::<Vec<_>>());
        assert_eq!((done.loss, n_parts.get()), (None, done.parts.len()));
        let pairs = gradient(&losses, &expected).into_iter().zip(gradient(&own, &done));
        assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() <= tolerance * a.abs().max(1.0)), "{micro_batch}");
    }
}

#[test]
fn a_gradient_is_shortened_to_the_norm_that_is_allowed_and_no_further() {
    let mut bench = Bench::new();
    let request = Bench::request(8, ROOM);
    let free = bench.attempt(&request, N_SAMPLES).unwrap();
    for (share, expected) in [(0.5, 0.5), (2.0, 1.0)] {
        let rescale = Rescale { max_norm: Some(free.gradient_norm * share), ..Rescale::default() };
        let outcome = bench.attempt(&StepRequest { rescale, ..request.clone() }, N_SAMPLES).unwrap();
        // What is said is the norm that the gradient had.
        assert_eq!(outcome.gradient_norm.to_bits(), free.gradient_norm.to_bits());
        let left = norm(&bench, &outcome.gradients) / free.gradient_norm;
        assert!((left - expected).abs() < 1e-5, "{share}: {left}");
    }
}

#[test]
fn the_scale_of_a_loss_is_taken_out_of_its_gradient_again() {
    let mut bench = Bench::new();
    let request = Bench::request(8, ROOM);
    let plain = bench.attempt(&request, N_SAMPLES).unwrap();
    let rescale = Rescale { loss_scale: Some(1024.0), ..Rescale::default() };
    let scaled = bench.attempt(&StepRequest { rescale, ..request.clone() }, N_SAMPLES).unwrap();
    // Powers of two cost no bit.
    assert_eq!((scaled.loss, gradient(&bench, &scaled)), (plain.loss, gradient(&bench, &plain)));
    let rescale = Rescale { loss_scale: Some(1e38), ..Rescale::default() };
    let error = bench.attempt(&StepRequest { rescale, ..request }, N_SAMPLES).err().unwrap();
    assert!(matches!(error, StepError::NotFinite { loss: Some(loss), .. } if loss.is_finite()), "{error}");
}

#[test]
fn a_panic_of_the_program_leaves_the_statistics_as_they_were() {
    let mut bench = Bench::new();
    let outcome = bench.attempt(&Bench::request(8, ROOM), N_SAMPLES).unwrap();
    assert!(matches!(bench.commit(outcome, ROOM, OptimizerRecovery::Restore), Commit::Done { .. }));
    let (before, samples) = (bench.saved(), bench.samples.clone());
    let mean_loss = |net: &Net, part: Range<usize>| {
        let loss = net.mean_loss(samples.clone().slice([part.clone()]));
        assert!(part.start == 0, "a sample is damaged");
        Loss::from(loss)
    };
    let Bench { step, state, .. } = &mut bench;
    let request = Bench::request(4, ROOM);
    let attempt = AssertUnwindSafe(|| step.attempt(state.model(), &request, &|_, _| None, &mean_loss));
    assert!(catch_unwind(attempt).is_err());
    assert_eq!(bench.saved(), before);
}
