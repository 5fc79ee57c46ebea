//! The steps of a program, when the optimizer runs out of memory.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::borrow::Cow;
use std::cell::RefCell;
use std::convert::Infallible;
use std::panic::resume_unwind;

use burn::module::{Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, ModuleOptimizer};
use burn::tensor::{Device, Distribution, Tensor};
use plimsoll_predict::{Dtype, Keys, Platform, PredictorConfig};
use plimsoll_probe::{DeviceKind, TrackingAllocator, open};
use plimsoll_step::{
    GuardedStep, Loss, NextStep, OptimizerRecovery, ProgramNeeds, ProgramSteps, StepError, StepRules, Stopped,
};
use plimsoll_types::Recompute;

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator::new();

#[derive(Module, Debug)]
struct Net {
    layer: Linear,
}

/// A model with its optimizer.
#[derive(Clone)]
struct State(Net, ModuleOptimizer);

impl State {
    fn new(device: &Device) -> Self {
        let mut layer = LinearConfig::new(2, 2).with_bias(false).init(device);
        let weight = Tensor::<1>::from_floats([0.5, -1.0, 0.25, 2.0], device);
        layer.weight = Param::from_tensor(weight.reshape([2, 2]));
        Self(Net { layer }, AdamConfig::new().init())
    }

    fn weights(&self) -> Vec<f32> {
        self.0.layer.weight.val().into_data().iter().collect()
    }
}

/// Takes a step whose optimizer runs out of memory so often at first; returns how it ended, the weights, and what was drawn.
fn take(recovery: OptimizerRecovery, mut n_failing: usize) -> (Result<(), StepError>, Vec<f32>, Vec<u32>) {
    let device = Device::flex().autodiff();
    let platform = Platform { device: 0, dtype: Dtype::F32, fusion: false, autotune: false };
    let keys = Keys { recompute: Recompute::NEVER, platform, small_batch: 0 };
    let needs = ProgramNeeds::try_new(keys, PredictorConfig::default(), true).unwrap();
    let guarded = GuardedStep::new(open(DeviceKind::Flex, None).unwrap(), device.clone());
    let rules = StepRules { seed: Some(5), recovery, ..StepRules::default() };
    let mut steps = ProgramSteps::try_new(guarded, needs, rules).unwrap();
    let (mut state, drawn) = (State::new(&device), RefCell::new(Vec::new()));
    let next = NextStep { number: 1, lengths: &[1], units: None, loss_scale: None, is_whole: false, replicas: None };
    loop {
        let model = state.0.clone();
        let ran = steps.attempt(&model, &next, &mut |guarded, request, predict| {
            let (drawn, device) = (&drawn, &device);
            let mean_loss = move |net: &Net, _| -> Loss {
                let input = Tensor::<2>::random([1, 2], Distribution::Default, device);
                drawn.borrow_mut().push(input.clone().sum().into_scalar::<f32>().to_bits());
                net.layer.forward(input).powi_scalar(2).mean().into()
            };
            Ok((guarded.attempt(&model, request, predict, &mean_loss)?, ()))
        });
        let ran = ran.unwrap_or_else(|stopped: Stopped<Infallible>| panic!("{stopped:?}"));
        let committed = steps.commit(ran, |guarded, gradients, limits| {
            let model = |it: &State| Cow::<'_, Net>::Owned(it.0.clone());
            guarded.commit_by(&mut state, model, limits, |state| {
                let has_room = n_failing == 0;
                n_failing = n_failing.saturating_sub(1);
                if !has_room {
                    resume_unwind(Box::new("can't allocate buffer of size: 4096"));
                }
                state.0 = state.1.step(0.1, state.0.clone(), gradients);
            })
        });
        match committed {
            Ok(None) => {}
            ended => return (ended.map(|_| ()), state.weights(), drawn.take()),
        }
    }
}

#[test]
fn an_optimizer_that_runs_out_of_memory_is_taken_again_once_from_a_copy() {
    let (ended, undisturbed, drawn) = take(OptimizerRecovery::Keep, 0);
    // One of the sounding, one of the step.
    assert!(ended.is_ok() && drawn.len() == 2 && drawn[0] == drawn[1], "{drawn:?}");
    let (ended, weights, drawn) = take(OptimizerRecovery::Keep, 1);
    assert!(ended.is_ok() && weights == undisturbed, "{weights:?}");
    assert!(3 <= drawn.len() && drawn.iter().all(|it| *it == drawn[0]), "{drawn:?}");
    let before = State::new(&Device::flex().autodiff()).weights();
    let (ended, weights, _) = take(OptimizerRecovery::Keep, 2);
    assert!(matches!(ended, Err(StepError::OutOfMemory(_))) && weights == before, "{ended:?}");
    let (ended, _, _) = take(OptimizerRecovery::Restore, 1);
    assert!(matches!(ended, Err(StepError::Damaged)), "{ended:?}");
}
