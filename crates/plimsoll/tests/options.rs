//! What a step does besides: clipping, scaled losses, averages, statistics, seeds, checkpoints.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../probe/tests/alone/mod.rs"]
mod alone;

use std::fs;

use alone::alone;
use burn::grad_clipping::GradientClippingConfig;
use burn::lr_scheduler::linear::LinearLrSchedulerConfig;
use burn::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamGroup};
use burn::nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig};
use burn::optim::{AdamWConfig, ModuleOptimizer, MuonConfig, SgdConfig};
use burn::tensor::{Device, FloatDType, Tensor};
use plimsoll::{Bytes, Error, LossScale, Step, StepError, TrackingAllocator, step};

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

const WIDTH: usize = 16;

#[derive(Module, Debug)]
struct Net {
    first: Linear,
    norm: BatchNorm,
    dropout: Dropout,
    last: Linear,
}

impl Net {
    fn init(device: &Device) -> Self {
        device.seed(11);
        let net = Self {
            first: LinearConfig::new(WIDTH, WIDTH).init(device),
            norm: BatchNormConfig::new(WIDTH).init(device),
            dropout: DropoutConfig::new(0.25).init(),
            last: LinearConfig::new(WIDTH, 1).init(device),
        };
        // Weights are drawn when they are first used, and statistics do not move without gradients.
        drop(net.valid().loss(&rows(2), &device.clone().inner()));
        net
    }

    fn loss(&self, rows: &[[f32; WIDTH]], device: &Device) -> Tensor<1> {
        let hidden = self.first.forward(Tensor::<1>::from_floats(&*rows.concat(), device).reshape([rows.len(), WIDTH]));
        let hidden = self.norm.forward(hidden.unsqueeze_dim::<3>(2)).squeeze_dim::<2>(2);
        (self.last.forward(self.dropout.forward(hidden.tanh())) - 1.0).powi_scalar(2).mean()
    }
}

fn rows(n: usize) -> Vec<[f32; WIDTH]> {
    (0..n).map(|seed| std::array::from_fn(|at| ((at * 7919 + seed * 104_729) % 97) as f32 / 97.0)).collect()
}

/// The values of everything that a model holds.
#[derive(Default)]
struct Values(Vec<f32>);

impl ModuleVisitor for Values {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.extend(param.base().into_data().iter::<f32>());
    }
}

fn values(net: &Net) -> Vec<f32> {
    let mut values = Values::default();
    net.visit(&mut values);
    values.0
}

fn sgd() -> ModuleOptimizer {
    SgdConfig::new().init()
}

fn take(step: &mut Step<Net>, n: usize, rate: impl Into<ModuleLearningRate>) -> f64 {
    let device = Device::flex().autodiff();
    step.run(&rows(n), rate, |net, part| net.loss(&part, &device)).unwrap().loss
}

#[test]
fn a_step_that_was_saved_goes_on_to_the_bit() {
    let _alone = alone();
    let (device, folder) = (Device::flex().autodiff(), tempfile::tempdir().unwrap());
    let path = folder.path().join("last");
    let build = || {
        let step = step(&device, Net::init(&device), AdamWConfig::new().init()).seed(3).average(0.9).micro_batch(3);
        step.loss_scale(LossScale::adaptive()).build().unwrap()
    };
    let mut undisturbed = build();
    for _ in 0..3 {
        take(&mut undisturbed, 8, 1e-2);
    }
    undisturbed.save(&path, &("epoch", 7_u32)).unwrap();
    // One of the same name is there until the next is whole.
    undisturbed.save(&path, &("epoch", 8_u32)).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let mut resumed = build();
    assert_eq!(resumed.load::<(String, u32)>(&path).unwrap(), ("epoch".to_owned(), 8));
    assert_eq!((resumed.n_steps(), resumed.predict(3, 1).unwrap().is_some()), (3, true));
    for _ in 0..2 {
        assert_eq!(take(&mut undisturbed, 8, 1e-2).to_bits(), take(&mut resumed, 8, 1e-2).to_bits());
    }
    assert_eq!(values(undisturbed.model()), values(resumed.model()));
    assert_eq!(values(undisturbed.average().unwrap()), values(resumed.average().unwrap()));
    // What is validated is what is saved.
    assert_eq!(values(resumed.model()), values(&resumed.model().valid()));
}

#[test]
fn a_checkpoint_that_is_damaged_foreign_or_not_there_is_named_and_changes_nothing() {
    let _alone = alone();
    let (device, folder) = (Device::flex().autodiff(), tempfile::tempdir().unwrap());
    let path = folder.path().join("last");
    let mut step = step(&device, Net::init(&device), sgd()).build().unwrap();
    let refused = |step: &mut Step<Net>, part: &str| {
        let before = values(step.model());
        let error = step.load::<()>(&path).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("last"), "{error}");
        assert_eq!(values(step.model()), before);
    };
    refused(&mut step, "there is no checkpoint");
    step.save(&path, &()).unwrap();
    take(&mut step, 4, 1e-2);
    let model = fs::read(path.join("model.bpk")).unwrap();
    let mut damaged = model.clone();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(path.join("model.bpk"), &damaged).unwrap();
    refused(&mut step, "model.bpk: it is damaged");
    fs::write(path.join("model.bpk"), &model).unwrap();
    let state = fs::read_to_string(path.join("state.json")).unwrap();
    fs::write(path.join("state.json"), state.replacen("\"version\":1", "\"version\":99", 1)).unwrap();
    refused(&mut step, "it has version 99, this program reads version 1");
    fs::write(path.join("state.json"), &state[..state.len() / 2]).unwrap();
    refused(&mut step, "state.json");
    fs::write(path.join("state.json"), &state).unwrap();
    // A kill between two names.
    fs::rename(&path, folder.path().join(".last.replaced")).unwrap();
    step.load::<()>(&path).unwrap();
    assert_eq!(step.n_steps(), 0);
    // A file in its place.
    fs::write(&path, "mine").unwrap();
    assert!(matches!(step.save(&path, &()), Err(Error::Save { .. })));
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
}

#[test]
fn a_gradient_is_clipped_by_its_norm_over_all_parameters_and_burns_own_clipping_stays() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let moved = |max_norm: Option<f64>, optimizer: ModuleOptimizer| {
        let built = step(&device, Net::init(&device), optimizer).seed(1).micro_batch(8);
        let built = if let Some(norm) = max_norm { built.max_norm(norm) } else { built };
        let mut step = built.build().unwrap();
        let before = values(step.model());
        let done = step.run(&rows(8), 1.0, |net, part| net.loss(&part, &device)).unwrap();
        // Statistics move too, by no gradient: they are the last but the last layer's.
        let trained = |it: Vec<f32>| [it[..WIDTH * (WIDTH + 1)].to_vec(), it[it.len() - WIDTH - 1..].to_vec()].concat();
        let moved =
            trained(before).into_iter().zip(trained(values(step.model()))).map(|(a, b)| f64::from(a - b).powi(2));
        (done.gradient_norm, moved.sum::<f64>().sqrt())
    };
    let (norm, free) = moved(None, sgd());
    let (said, clipped) = moved(Some(norm / 4.0), sgd());
    assert!((said - norm).abs() < 1e-9 && clipped < free / 3.0 && free / 6.0 < clipped, "{norm} {free} {clipped}");
    let value = GradientClippingConfig::Value(1e-6);
    let (_, by_value) = moved(None, SgdConfig::new().with_gradient_clipping(Some(value)).init());
    assert!(by_value < 1e-6 * (2.0 * (WIDTH * WIDTH) as f64).sqrt(), "{by_value}");
}

#[test]
fn an_average_follows_the_weights_and_statistics_are_those_of_the_model() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let mut step = step(&device, Net::init(&device), sgd()).average(0.75).build().unwrap();
    assert!(step.average().is_none());
    let weight = |net: &Net| net.last.bias.as_ref().unwrap().val().into_scalar::<f32>();
    let mut expected = weight(step.model());
    for _ in 0..3 {
        take(&mut step, 8, 0.1);
        expected = 0.75 * expected + 0.25 * weight(step.model());
        assert!((weight(step.average().unwrap()) - expected).abs() < 1e-6);
    }
    let mean = |net: &Net| net.norm.running_mean.value().into_data();
    assert_eq!(mean(step.average().unwrap()), mean(step.model()));
    let before = mean(step.average().unwrap());
    drop(step.average().unwrap().loss(&rows(8), &device.clone().inner()));
    assert_eq!(mean(step.average().unwrap()), before);
}

#[test]
fn statistics_that_parts_change_are_said_once_and_division_can_be_forbidden() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let mut parted = step(&device, Net::init(&device), sgd()).micro_batch(4).build().unwrap();
    let said: Vec<_> = (0..3)
        .map(|_| parted.run(&rows(8), 1e-3, |net, part| net.loss(&part, &device)).unwrap().changes_statistics)
        .collect();
    assert_eq!(said, [true, false, false]);
    // Nothing is known of another model.
    parted.restore(Net::init(&device), sgd());
    assert!(parted.run(&rows(8), 1e-3, |net, part| net.loss(&part, &device)).unwrap().changes_statistics);
    let mut whole = step(&device, Net::init(&device), sgd()).in_one_part().build().unwrap();
    let done = whole.run(&rows(8), 1e-3, |net, part| net.loss(&part, &device)).unwrap();
    assert_eq!((done.parts.len(), done.changes_statistics), (1, false));
    let before = values(whole.model());
    let held = plimsoll_probe::open(plimsoll_probe::DeviceKind::Flex, None).unwrap().read().unwrap().in_use;
    let tight = step(&device, Net::init(&device), sgd()).in_one_part().capacity(held.saturating_add(Bytes::kib(64)));
    let error = tight.build().unwrap().run(&rows(4096), 1e-3, |net, part| net.loss(&part, &device)).unwrap_err();
    assert!(matches!(error, Error::Step(StepError::NotDivided { n_samples: 4096, .. })), "{error}");
    assert_eq!(values(whole.model()), before);
}

/// Makes every number one of 16 bits.
struct Half;

impl ModuleMapper for Half {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|it| Tensor::from_inner(it.inner().cast(FloatDType::F16)).require_grad())
    }
}

#[derive(Module, Debug)]
struct Nothing {
    dropout: Dropout,
}

/// Keeps weights in a range.
struct Clamp;

impl ModuleMapper for Clamp {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|it| {
            if it.is_require_grad() { Tensor::from_inner(it.inner().clamp(-0.01, 0.01)).require_grad() } else { it }
        })
    }
}

#[derive(Module, Debug)]
struct Small {
    layer: Linear,
}

#[test]
fn a_step_whose_multiplied_gradient_overflows_is_passed_over_and_counted() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    device.seed(2);
    let model = Small { layer: LinearConfig::new(WIDTH, 1).init(&device) }.map(&mut Half);
    let mut step = step(&device, model, sgd()).loss_scale(LossScale::adaptive()).build().unwrap();
    let loss = |net: &Small, part: Vec<[f32; WIDTH]>| {
        let input = Tensor::<1>::from_floats(&*part.concat(), &device).reshape([part.len(), WIDTH]);
        let output = net.layer.forward(input.cast(FloatDType::F16)) * 8.0 + 16.0;
        output.powi_scalar(2).mean().cast(FloatDType::F32)
    };
    let weight = |step: &Step<Small>| step.model().layer.weight.val().into_data().iter::<f32>().collect::<Vec<_>>();
    let (mut losses, mut n_skipped) = (Vec::new(), 0);
    for _ in 0..20 {
        let before = weight(&step);
        let done = step.run(&rows(8), 1e-4, loss).unwrap();
        assert_eq!(done.is_skipped, before == weight(&step));
        assert_eq!(done.is_skipped, !done.gradient_norm.is_finite());
        n_skipped += u64::from(done.is_skipped);
        losses.push(done.loss);
    }
    assert!(0 < n_skipped && n_skipped < 15 && step.n_skipped() == n_skipped, "{n_skipped}");
    assert_eq!(step.n_steps(), 20 - n_skipped);
    assert!(losses.last() < losses.first(), "{losses:?}");
    // A scale that stays and is far too large is an error in time, and each step that fits begins the count anew.
    let model = step.into_model().unwrap();
    let mut step = plimsoll::step(&device, model, sgd()).loss_scale(LossScale::fixed(1e30)).build().unwrap();
    let n_skipped = (0..100).take_while(|_| step.run(&rows(8), 1e-4, loss).is_ok_and(|it| it.is_skipped)).count();
    assert_eq!((n_skipped, step.n_skipped(), step.n_steps()), (16, 16, 0));
    assert!(matches!(step.run(&rows(8), 1e-4, loss), Err(Error::Step(StepError::NotFinite { .. }))));
    // Without a scale an overflow is an error.
    let endless = |net: &Small, part: Vec<[f32; WIDTH]>| loss(net, part) * f32::INFINITY;
    assert!(matches!(step.run(&rows(8), 1e-4, endless), Err(Error::Step(StepError::NotFinite { .. }))));
}

#[test]
fn burns_schedulers_parameter_groups_and_optimizers_serve_as_they_are() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let net = Net::init(&device);
    let matrices = ParamGroup::from_path("first.weight");
    let optimizer =
        ModuleOptimizer::from(AdamWConfig::new().build()).with_group(matrices, MuonConfig::new().build(), None);
    let mut scheduler = LinearLrSchedulerConfig::new(1e-2, 1e-3, 10).init().unwrap();
    let mut step = step(&device, net, optimizer).build().unwrap();
    let losses: Vec<_> = (0..6).map(|_| take(&mut step, 16, scheduler.step())).collect();
    assert!(losses.last() < losses.first(), "{losses:?}");
    // Weights in a range, between two steps.
    step.change(|net| net.map(&mut Clamp));
    assert!(step.model().first.weight.val().abs().max().into_scalar::<f32>() <= 0.01);
    take(&mut step, 16, scheduler.step());
}

#[test]
fn settings_that_make_no_sense_are_refused_by_name() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let built = || step(&device, Net::init(&device), sgd());
    let refused = [
        (built().micro_batch(0).build(), "`micro_batch` of 0"),
        (built().max_norm(-1.0).build(), "`max_norm` of -1"),
        (built().average(1.0).build(), "`average` of 1"),
        (built().loss_scale(LossScale::fixed(0.0)).build(), "`loss_scale` of 0"),
        (built().micro_batch(3).in_one_part().build(), "left out beside `in_one_part`"),
    ];
    for (built, part) in refused {
        let error = built.err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    }
    let nothing = step(&device, Nothing { dropout: DropoutConfig::new(0.5).init() }, sgd()).build();
    assert!(matches!(nothing.err(), Some(Error::NoParameters { .. })));
}
