//! Real shortages on a software Vulkan device: its driver refuses memory at moments that a test chooses.
#![cfg(all(unix, feature = "vulkan"))]
#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod net;
mod shim;

use std::cell::RefCell;
use std::ops::RangeInclusive;

use burn::optim::{AdamConfig, ModuleOptimizer};
use burn::tensor::{Device, Tensor, TensorData};
use net::{N_SAMPLES, Net, Values, WIDTH, mean_loss, values_of};
use plimsoll_guard::{Cause, DeviceError, classify};
use plimsoll_probe::{DeviceKind, open};
use plimsoll_step::{GuardedStep, Loss, StepOutcome, StepRequest};
use plimsoll_train::open_device;
use plimsoll_types::{Budget, Bytes, Knobs, Prediction};
use shim::{Refusal, under_shim};

const LEARNING_RATE: f64 = 1e-2;
/// What pages of tensors have.
const PAGES: RangeInclusive<Bytes> = Bytes::mib(2)..=Bytes::MAX;
/// What the buffers have that the runtime keeps arguments of kernels in.
const ARGUMENTS: RangeInclusive<Bytes> = Bytes(1)..=Bytes::mib(1);

/// When a step asks for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Forward,
    Backward,
}

struct Bench {
    device: Device,
    net: Net,
    guarded: GuardedStep,
    micro_batch_size: u32,
    /// What is predicted of every part.
    certified: Option<Prediction>,
}

impl Bench {
    fn new(micro_batch_size: u32, certified: Option<Prediction>) -> Self {
        let probe = open(DeviceKind::Vulkan(0), None).unwrap();
        let device = open_device(DeviceKind::Vulkan(0)).unwrap();
        let (net, guarded) = (Net::init(&device), GuardedStep::new(probe, device.clone()));
        Self { device, net, guarded, micro_batch_size, certified }
    }

    /// Runs a step on pages of its own, and calls `on` whenever a pass is about to begin one of its halves.
    fn step(&mut self, on: &dyn Fn(Moment)) -> StepOutcome {
        let Self { device, net, guarded, micro_batch_size, certified } = self;
        clean_up(device);
        let knobs = Knobs { patch_size: 1, micro_batch_size: *micro_batch_size };
        let request = StepRequest::of_edge(N_SAMPLES, knobs, Budget { capacity: Bytes::gib(1), budget: Bytes::gib(1) });
        let loss = |net: &Net, samples| {
            on(Moment::Forward);
            let loss = mean_loss(net, samples, device);
            device.sync().unwrap();
            on(Moment::Backward);
            Loss::from(loss)
        };
        let predict = |_, _| *certified;
        guarded.attempt(net, &request, &predict, &loss).unwrap()
    }

    /// Runs a step whose first pass is refused such memory from a moment on.
    fn refused_step(&mut self, moment: Moment, sizes: &RangeInclusive<Bytes>) -> StepOutcome {
        let (refusal, passes, device) = (RefCell::new(None), RefCell::new(0), self.device.clone());
        let outcome = self.step(&|now| {
            *passes.borrow_mut() += usize::from(now == Moment::Forward);
            if *passes.borrow() == 2 {
                drop(refusal.borrow_mut().take());
            } else if now == moment && *passes.borrow() == 1 {
                *refusal.borrow_mut() = Some((filled(&device), Refusal::begin(sizes)));
            }
        });
        assert!(refusal.borrow().is_none(), "the first pass was not refused anything");
        outcome
    }
}

/// Returns what nobody holds; what is fused and not under way yet holds what it was made of.
fn clean_up(device: &Device) {
    device.sync().unwrap();
    device.memory_cleanup();
}

/// Leaves no room for another value of the network in the pages that there are, for as long as what is returned lives.
fn filled(device: &Device) -> Vec<Tensor<1>> {
    clean_up(device);
    let probe = open(DeviceKind::Vulkan(0), None).unwrap();
    let (mut filling, mut reserved) = (Vec::new(), probe.read().unwrap().reserved);
    // The second new page begins where the first is full.
    for n_pages in 0.. {
        while probe.read().unwrap().reserved == reserved {
            filling.push(Tensor::from_data(TensorData::new(vec![0.0_f32; WIDTH], [WIDTH]), device));
            device.sync().unwrap();
        }
        reserved = probe.read().unwrap().reserved;
        if n_pages == 1 {
            break;
        }
    }
    filling.pop();
    clean_up(device);
    filling
}

fn all(read: Vec<Result<Values, String>>) -> Vec<Values> {
    read.into_iter().map(Result::unwrap).collect()
}

/// Refuses such memory to one pass, first on the way forward and then on the way back.
///
/// A step that is certain to fit is read once, and what failed of it shows only then.
fn check_pass(sizes: &RangeInclusive<Bytes>) {
    let fits = Prediction { expected: Bytes::mib(1), upper: Bytes::mib(1) };
    check_pass_of(Bench::new(4, None), sizes, &[Moment::Forward, Moment::Backward]);
    for micro_batch_size in [4, 2] {
        check_pass_of(Bench::new(micro_batch_size, Some(fits)), sizes, &[Moment::Forward]);
    }
}

fn check_pass_of(mut bench: Bench, sizes: &RangeInclusive<Bytes>, moments: &[Moment]) {
    let before = all(bench.net.try_values());
    let whole = bench.step(&|_| ());
    assert_eq!(whole.parts.len(), N_SAMPLES / bench.micro_batch_size as usize);
    assert_eq!(bench.guarded.take_failures(), []);
    let expected = values_of(&bench.net, &whole.gradients);
    for moment in moments.iter().copied() {
        let refused = bench.refused_step(moment, sizes);
        assert!(!bench.guarded.take_failures().is_empty(), "{moment:?}: nobody noticed");
        let samples = refused.parts.iter().map(|it| it.part.samples.len()).sum::<usize>();
        assert_eq!(samples, N_SAMPLES, "{moment:?}: {:?}", refused.parts);
        let difference = net::relative_difference(&expected, &values_of(&bench.net, &refused.gradients));
        assert!(difference < 1e-6, "{moment:?}: {difference:e}");
        let (loss, of_refused) = (whole.loss.unwrap(), refused.loss.unwrap());
        assert!((loss - of_refused).abs() < 1e-6 * loss, "{loss} {of_refused}");
        assert_eq!(all(bench.net.try_values()), before, "{moment:?}: the weights changed");
    }
}

#[test]
fn a_pass_that_is_refused_memory_runs_again_and_has_the_same_gradient() {
    under_shim("a_pass_that_is_refused_memory_runs_again_and_has_the_same_gradient", || check_pass(&PAGES));
}

/// `CubeCL` panics where it cannot pass a kernel its arguments.
#[test]
fn a_pass_whose_kernels_get_no_arguments_runs_again_too() {
    under_shim("a_pass_whose_kernels_get_no_arguments_runs_again_too", || check_pass(&ARGUMENTS));
}

/// Steps while memory is refused, and checks what became of the model.
fn step_refused(bench: &mut Bench, optimizer: &mut ModuleOptimizer) -> Net {
    let outcome = bench.step(&|_| ());
    clean_up(&bench.device);
    let refusal = (filled(&bench.device), Refusal::begin(&PAGES));
    let mut stepped = optimizer.step(LEARNING_RATE, bench.net.clone(), outcome.gradients);
    assert!(bench.device.sync().is_ok(), "a failure shows only where values are read");
    drop(refusal);
    clean_up(&bench.device);
    let errors: Vec<_> = stepped.try_values().into_iter().filter_map(Result::err).collect();
    let cause = |text: &String| classify(DeviceError { text, is_poisoned: false }, Bytes::MAX);
    let is_memory = |error: &String| matches!(cause(error), Cause::OutOfMemory { allocation: Some(_) });
    assert!(!errors.is_empty() && errors.iter().all(is_memory), "{errors:?}");
    let before = all(bench.net.try_values());
    stepped.write(&before);
    assert_eq!(all(stepped.try_values()), before, "what is written reads again");
    stepped
}

#[test]
fn an_optimizer_step_that_is_refused_memory_is_taken_again_from_what_was_kept() {
    under_shim("an_optimizer_step_that_is_refused_memory_is_taken_again_from_what_was_kept", || {
        let mut bench = Bench::new(4, None);
        let mut optimizer: ModuleOptimizer = AdamConfig::new().init();
        let (folder, before) = (tempfile::tempdir().unwrap(), all(bench.net.try_values()));
        // The first step makes the moments, the second changes them.
        for path in ["0.bpk", "1.bpk"].map(|name| folder.path().join(name)) {
            let kept = optimizer.clone();
            optimizer.save(&path).unwrap();
            let mut undisturbed = optimizer.clone();
            let gradients = bench.step(&|_| ()).gradients;
            let expected = all(undisturbed.step(LEARNING_RATE, bench.net.clone(), gradients).try_values());

            let written = step_refused(&mut bench, &mut optimizer);
            assert_eq!(all(bench.net.try_values()), before, "the model that was kept has changed");
            // The optimizer that took the refused step is damaged for good; one that was kept, or saved, is not.
            for mut whole in [kept, AdamConfig::new().init().load(&path).unwrap()] {
                let gradients = bench.step(&|_| ()).gradients;
                let again = whole.step(LEARNING_RATE, written.clone(), gradients);
                assert_eq!(all(again.try_values()), expected);
            }
            optimizer = undisturbed;
        }
    });
}
