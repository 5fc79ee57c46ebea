//! The steps of a program whose model lies on several devices.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::ops::Range;

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::AdamConfig;
use burn::tensor::{Device, Tensor};
use plimsoll_predict::{Dtype, Keys, Platform, PredictorConfig};
use plimsoll_probe::{DeviceKind, Probe, ProbeError, TrackingAllocator, open};
use plimsoll_step::{
    Elsewhere, GuardedStep, Loss, NextStep, ProgramNeeds, ProgramSteps, Ran, StepError, StepRules, Stopped, TrainState,
    Update,
};
use plimsoll_types::{Attempt, Bytes, MemoryReading, Recompute, StepShape};

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator::new();

/// A device on which a part needs 1 MiB for each sample.
struct Card {
    capacity: Bytes,
    reached: Bytes,
}

impl Probe for Card {
    fn name(&self) -> String {
        "a card".into()
    }

    fn read(&self) -> Result<MemoryReading, ProbeError> {
        Ok(MemoryReading {
            in_use: Bytes::ZERO,
            reserved: self.reached,
            peak: self.reached,
            page: Bytes::ZERO,
            packed: Bytes::ZERO,
        })
    }

    fn announce(&mut self, shape: StepShape) {
        self.reached = Bytes::mib(shape.samples.into());
    }

    fn reset_peak(&mut self) -> Result<(), ProbeError> {
        Ok(())
    }

    fn has_exact_peak(&self) -> bool {
        true
    }

    fn capacity(&self) -> Result<Bytes, ProbeError> {
        Ok(self.capacity)
    }

    fn largest_allocation(&self) -> Result<Bytes, ProbeError> {
        Ok(self.capacity)
    }

    fn cleanup(&mut self) -> Result<(), ProbeError> {
        Ok(())
    }
}

#[derive(Module, Debug)]
struct Net {
    layer: Linear,
}

/// A model beside which a card has so much.
struct Program {
    device: Device,
    steps: ProgramSteps,
    state: TrainState<Net>,
    n_steps: u64,
}

impl Program {
    fn new(capacity: Bytes, rules: StepRules) -> Self {
        let device = Device::flex().autodiff();
        let platform = |device| Platform { device, dtype: Dtype::F32, fusion: false, autotune: false };
        let needs = |device| {
            let keys = Keys { recompute: Recompute::NEVER, platform: platform(device), small_batch: 0 };
            ProgramNeeds::try_new(keys, PredictorConfig::default(), true).unwrap()
        };
        let card = Elsewhere::new(Box::new(Card { capacity, reached: Bytes::ZERO }), device.clone(), needs(1));
        let guarded = GuardedStep::new(open(DeviceKind::Flex, None).unwrap(), device.clone()).also_on(card);
        let steps = ProgramSteps::try_new(guarded, needs(0), rules).unwrap();
        let net = Net { layer: LinearConfig::new(2, 2).init(&device) };
        Self { device, steps, state: TrainState::new(net, AdamConfig::new().init()), n_steps: 0 }
    }

    /// Takes a step; returns its parts, and those that did not fit on the card.
    fn take(&mut self, n_samples: usize) -> Result<(Vec<Range<usize>>, Vec<Attempt>), StepError> {
        let lengths = vec![1; n_samples];
        let (number, replicas) = (self.n_steps, None);
        let next = NextStep { number, lengths: &lengths, units: None, loss_scale: None, is_whole: false, replicas };
        let (model, device) = (self.state.model(), &self.device);
        let ran: Result<Ran<()>, Stopped> = self.steps.attempt(model, &next, &mut |guarded, request, predict| {
            let mean_loss = |net: &Net, part: Range<usize>| -> Loss {
                net.layer.forward(Tensor::<2>::ones([part.len(), 2], device)).mean().into()
            };
            Ok((guarded.attempt(model, request, predict, &mean_loss)?, ()))
        });
        let failures = self.steps.guarded_mut().others_mut()[0].take_failures();
        let ran = ran.map_err(|stopped| match stopped {
            Stopped::Step(error) => error,
        });
        let (mut ran, reading) = self
            .steps
            .commit(ran?, |guarded, gradients, (capacity, recovery)| {
                guarded.commit(&mut self.state, Update { gradients, rate: 0.1.into(), capacity, recovery })
            })?
            .unwrap();
        self.steps.learn(&mut ran, reading);
        self.n_steps += 1;
        Ok((ran.outcome.parts.into_iter().map(|it| it.part.samples).collect(), failures))
    }
}

#[test]
fn a_part_has_as_many_samples_as_are_certain_to_fit_on_the_tightest_device() {
    let mut program = Program::new(Bytes::mib(10), StepRules::default());
    for _ in 0..3 {
        let (parts, failures) = program.take(24).unwrap();
        // Nine of ten MiB may be used, and a bound of what nine samples need is a little above what they will be seen to.
        assert_eq!((parts, failures), (vec![0..8, 8..16, 16..24], Vec::new()));
        let card = &program.steps.guarded().others()[0];
        assert_eq!((card.peak(), card.budget().budget), (Bytes::mib(8), Bytes::mib(9)));
    }
}

#[test]
fn a_shortage_on_one_device_halves_the_part_for_all_and_is_remembered() {
    let rules = StepRules { micro_batch: Some(32), ..StepRules::default() };
    let mut program = Program::new(Bytes::mib(10), rules);
    let (parts, failures) = program.take(32).unwrap();
    assert_eq!(parts, [0..8, 8..16, 16..24, 24..32]);
    let failed: Vec<_> = failures.into_iter().map(|it| (it.shape.samples, it.peak)).collect();
    assert_eq!(failed, [(32, Some(Bytes::mib(32))), (16, Some(Bytes::mib(16)))]);
    let (parts, failures) = program.take(32).unwrap();
    assert_eq!((parts.len(), failures.len()), (4, 0));
}

#[test]
fn a_sample_that_does_not_fit_on_one_device_is_an_error_with_its_name_and_its_figures() {
    let error = Program::new(Bytes::kib(600), StepRules::default()).take(4).unwrap_err();
    assert_eq!(error.sample(), Some(0));
    assert_eq!(
        error.to_string(),
        "on a card: one sample alone does not fit: needs 1.00 MiB, budget 540.00 KiB (capacity 600.00 KiB)"
    );
    let rules = StepRules { may_divide: false, ..StepRules::default() };
    let error = Program::new(Bytes::mib(3), rules).take(4).unwrap_err().to_string();
    assert!(
        error.starts_with("on a card: 4 samples do not fit at once") && error.contains("needed 4.00 MiB"),
        "{error}"
    );
}
