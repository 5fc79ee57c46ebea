//! A step happens, or it does not.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::AdamConfig;
use burn::tensor::{Device, Tensor};
use plimsoll_probe::{DeviceKind, TrackingAllocator, open};
use plimsoll_step::{Commit, GuardedStep, Loss, OptimizerRecovery, StepRequest, TrainState, Update, rehearse};
use plimsoll_types::{Budget, Bytes, Knobs, StepShape};

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator::new();

static DRAWING: Mutex<()> = Mutex::new(());

const N_SAMPLES: usize = 7;
const WIDTH: usize = 4;

#[derive(Module, Debug)]
struct Net {
    layer: Linear,
}

struct Bench {
    device: Device,
    step: GuardedStep,
    state: TrainState<Net>,
    samples: Tensor<2>,
}

impl Bench {
    fn new() -> Self {
        // Whoever draws weights in another test draws from the same generator.
        let _alone = DRAWING.lock().unwrap_or_else(PoisonError::into_inner);
        let device = Device::flex().autodiff();
        device.seed(3);
        let values: Vec<f32> = (0..N_SAMPLES * WIDTH).map(|at| (at % 5) as f32 - 2.0).collect();
        let samples = Tensor::<1>::from_floats(&*values, &device).reshape([N_SAMPLES, WIDTH]);
        let net = Net { layer: LinearConfig::new(WIDTH, 2).init(&device) };
        // They are drawn when they are first used.
        drop(mean_loss(&net, samples.clone()));
        let step = GuardedStep::new(open(DeviceKind::Flex, None).unwrap(), device.clone());
        Self { device, step, state: TrainState::new(net, AdamConfig::new().init()), samples }
    }

    fn weights(&self) -> Vec<f32> {
        self.state.model().layer.weight.val().into_data().iter().collect()
    }

    /// Takes a step in micro-batches of three, three and one.
    fn take(&mut self, capacity: Bytes, recovery: OptimizerRecovery) -> Commit {
        let room = Bytes::gib(1);
        let knobs = Knobs { patch_size: 1, micro_batch_size: 3 };
        let request = StepRequest::of_edge(N_SAMPLES, knobs, Budget { capacity: room, budget: room });
        let samples = self.samples.clone();
        let mean_loss = |net: &Net, part: Range<usize>| mean_loss(net, samples.clone().slice([part]));
        let outcome = self.step.attempt(self.state.model(), &request, &|_, _| None, &mean_loss).unwrap();
        let update = Update { gradients: outcome.gradients, rate: 0.1.into(), capacity, recovery };
        self.step.commit(&mut self.state, update).unwrap()
    }
}

fn mean_loss(net: &Net, samples: Tensor<2>) -> Loss {
    net.layer.forward(samples).powi_scalar(2).mean().into()
}

#[test]
fn an_attempt_changes_nothing_and_a_commit_moves_the_weights() {
    let mut bench = Bench::new();
    let before = bench.weights();
    assert!(matches!(bench.take(Bytes::gib(1), OptimizerRecovery::Restore), Commit::Done { .. }));
    assert!(bench.weights().iter().zip(&before).all(|(now, was)| 0.0 < (now - was).abs()), "{before:?}");
}

#[test]
fn an_update_that_takes_more_than_there_is_is_undone_from_a_copy() {
    let mut bench = Bench::new();
    assert!(matches!(bench.take(Bytes::gib(1), OptimizerRecovery::Keep), Commit::Done { .. }));
    let before = bench.weights();
    let Commit::OutOfMemory { peak: Some(peak), is_back: true } = bench.take(Bytes(1), OptimizerRecovery::Keep) else {
        panic!("a byte is not enough")
    };
    assert!(Bytes(1) < peak);
    assert_eq!(bench.weights(), before);
    // Moments are back, too: the same step from the same state has the same end.
    assert!(matches!(bench.take(Bytes::gib(1), OptimizerRecovery::Keep), Commit::Done { .. }));
    let mut undisturbed = Bench::new();
    for _ in 0..2 {
        undisturbed.take(Bytes::gib(1), OptimizerRecovery::Restore);
    }
    assert_eq!(bench.weights(), undisturbed.weights());
}

#[test]
fn an_update_that_takes_more_than_there_is_leaves_no_state_where_none_was_kept() {
    let mut bench = Bench::new();
    let ended = bench.take(Bytes(1), OptimizerRecovery::Restore);
    assert!(matches!(ended, Commit::OutOfMemory { is_back: false, .. }), "{ended:?}");
    assert!(bench.state.is_lost());
}

#[test]
fn a_rehearsal_reads_what_a_step_reads_and_takes_no_step() {
    let bench = Bench::new();
    let before = bench.weights();
    let room = Budget { capacity: Bytes::gib(1), budget: Bytes::gib(1) };
    let request = StepRequest::of_shapes(&[StepShape::new(3, 1), StepShape::new(4, 1)], Vec::new(), room);
    let Bench { device, state, samples, mut step } = bench;
    let live = |net: &Net, part: Range<usize>| mean_loss(net, samples.clone().slice([part]));
    let outcome = step.attempt(state.model(), &request, &|_, _| None, &live).unwrap();
    let rehearsed = |net: &Net, part: &plimsoll_step::StepPart| live(net, part.samples.clone());
    let (state, read) = rehearse(state, &device, &request, rehearsed, OptimizerRecovery::Keep);
    // The norm of all gradients comes after what belongs to each part.
    let norm = read.into_data().iter::<f64>().last().unwrap().sqrt();
    assert!((norm - outcome.gradient_norm).abs() <= 1e-9 * norm, "{norm} {}", outcome.gradient_norm);
    let after: Vec<f32> = state.model().layer.weight.val().into_data().iter().collect();
    assert_eq!(after, before, "a rate of zero moves nothing");
}
