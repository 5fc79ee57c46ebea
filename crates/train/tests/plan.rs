//! Dry runs against real steps, on a Vulkan device where one is installed; a software driver will do.
#![cfg(feature = "vulkan")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../probe/tests/alone/mod.rs"]
mod alone;

use alone::alone;
use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::PaddingConfig2d;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor, TensorData};
use plimsoll_plan::{Act, DryRunPlanner, Fit, PlanError, Pools, Program, STEPS, Sweep};
use plimsoll_predict::Phase;
use plimsoll_probe::{DeviceKind, ProbeError};
use plimsoll_step::{WeightedAccumulator, squared_norm};
use plimsoll_train::{open_device, uploaded};
use plimsoll_types::{Bytes, StepShape};

const DEVICE: DeviceKind = DeviceKind::Vulkan(0);

/// Opens planner and device, or says why the test is skipped.
fn open() -> Option<(DryRunPlanner, Device)> {
    match DryRunPlanner::try_open(DEVICE) {
        Ok(planner) => Some((planner, open_device(DEVICE).unwrap())),
        Err(PlanError::Probe(error @ ProbeError::NoDevice { .. })) => {
            eprintln!("skipped: failed to {error}");
            None
        }
        Err(error) => panic!("failed to {error}"),
    }
}

#[derive(Module, Debug)]
struct Net {
    layers: Vec<Conv2d>,
}

impl Net {
    fn init(device: &Device) -> Self {
        let conv = |from, to| Conv2dConfig::new([from, to], [3, 3]).with_padding(PaddingConfig2d::Same).init(device);
        Self { layers: vec![conv(3, 16), conv(16, 16), conv(16, 3)] }
    }

    fn mean_loss(&self, images: Tensor<4>) -> Tensor<1> {
        let output = self.layers.iter().fold(images.clone(), |x, layer| relu(layer.forward(x)));
        (output - images).abs().mean()
    }
}

/// The step of [`Net`], which reads its loss where it is asked to.
struct Step {
    device: Device,
    reads: bool,
}

impl Step {
    fn new(device: &Device) -> Self {
        Self { device: device.clone(), reads: false }
    }
}

fn images(shape: StepShape, device: &Device) -> Tensor<4> {
    let (n, edge) = (shape.samples as usize, shape.edge() as usize);
    Tensor::zeros([n, 3, edge, edge], device)
}

impl Program for Step {
    type State = (Net, ModuleOptimizer);

    fn device(&self) -> &Device {
        &self.device
    }

    fn start(&self) -> Self::State {
        (Net::init(&self.device), AdamConfig::new().init())
    }

    fn train(&self, (net, mut optimizer): Self::State, parts: &[StepShape]) -> (Self::State, Tensor<1>) {
        let mut accumulator = WeightedAccumulator::new(parts.iter().map(|it| u64::from(it.samples)).sum());
        for shape in parts {
            let loss = net.mean_loss(images(*shape, &self.device));
            if self.reads {
                std::hint::black_box(loss.clone().into_scalar::<f32>());
            }
            let gradients = accumulator.backward(&net, &loss, u64::from(shape.samples));
            accumulator.add(&net, gradients);
        }
        let gradients = accumulator.finish();
        let norm = squared_norm(&net, &gradients, &self.device);
        let net = optimizer.step(1e-3, net, gradients);
        ((net, optimizer), norm)
    }

    fn infer(&self, (net, _): &Self::State, shape: StepShape) -> Tensor<1> {
        net.valid().mean_loss(images(shape, &self.device.clone().inner()))
    }
}

/// Runs steps for real from empty pools, and returns what the pools hold after each.
fn run(planner: &DryRunPlanner, step: &Step, steps: &[Real]) -> Vec<Pools> {
    let pools = planner.really(&step.device, || {
        let before = planner.pools(&step.device);
        let mut state = step.start();
        let mut after = Vec::new();
        for it in steps {
            let scalar = match it {
                Real::Train(parts) => {
                    let scalar;
                    (state, scalar) = step.train(state, parts);
                    Some(scalar)
                }
                Real::Infer(shape) => Some(step.infer(&state, *shape)),
                Real::CleanUp => None,
            };
            match scalar {
                Some(scalar) => assert!(scalar.try_into_data().is_ok()),
                None => step.device.memory_cleanup(),
            }
            after.push(planner.pools(&step.device).beyond(&before));
        }
        after
    });
    step.device.memory_cleanup();
    pools
}

/// A step with all of its micro-batches, of which a plan leaves out those that book nothing new.
#[derive(Clone)]
enum Real {
    Train(Vec<StepShape>),
    Infer(StepShape),
    CleanUp,
}

impl Real {
    fn of(phase: Phase, shape: StepShape, n_samples: u32) -> Self {
        let mut parts = vec![shape; (n_samples / shape.samples) as usize];
        let ragged = n_samples % shape.samples;
        parts.extend((ragged > 0).then_some(shape.with_samples(ragged)));
        match phase {
            Phase::Train => Self::Train(parts),
            Phase::Infer => Self::Infer(shape),
        }
    }
}

#[test]
fn a_dry_run_books_the_pages_that_a_real_step_takes() {
    let _alone = alone();
    let Some((planner, device)) = open() else { return };
    let step = Step::new(&device);
    let shapes = [(1, 16), (3, 24), (8, 32), (7, 48), (16, 48)].map(|(n, edge)| StepShape::new(n, edge));
    for shape in shapes {
        for (phase, n_samples) in [(Phase::Train, shape.samples), (Phase::Train, 20), (Phase::Infer, shape.samples)] {
            let dry = planner.rehearse(&step, &vec![Act::of(phase, shape, n_samples); STEPS]).unwrap();
            assert!(dry.is_fresh());
            let real = run(&planner, &step, &vec![Real::of(phase, shape, n_samples); STEPS]);
            for (dry, real) in dry.after.iter().zip(real) {
                let pages = |it: &Pools| (it.reserved, it.pages.clone());
                assert_eq!(pages(dry), pages(&real), "{phase:?} {shape} of {n_samples}");
            }
        }
    }
}

/// Burn keeps the parameters that a model begins with in pages of their own, beside those that hold later ones.
#[test]
fn the_first_step_of_a_run_is_planned_as_it_is_and_so_are_later_ones() {
    let _alone = alone();
    let Some((planner, device)) = open() else { return };
    let step = Step::new(&device);
    let [validation, training, other] = [(16, 64), (8, 48), (4, 32)].map(|(n, edge)| StepShape::new(n, edge));
    let began = [Act::of(Phase::Infer, validation, 16), Act::of(Phase::Train, training, 8)];
    let really_began = [Real::of(Phase::Infer, validation, 16), Real::of(Phase::Train, training, 8), Real::CleanUp];
    let mut is_above = false;
    for (phase, shape) in [(Phase::Train, training), (Phase::Train, other), (Phase::Infer, validation)] {
        let dry = planner.in_run(&step, &began, &Act::of(phase, shape, shape.samples)).unwrap();
        let real = Real::of(phase, shape, shape.samples);
        let [pass, _, clean_up] = &really_began;
        let first = run(&planner, &step, &[pass.clone(), clean_up.clone(), real.clone()]).pop();
        let later = run(&planner, &step, &[&really_began[..], &[real.clone(), real]].concat()).pop();
        let reserved = |pools: Option<Pools>| pools.unwrap().reserved;
        assert_eq!([dry.first.reserved, dry.later.reserved], [reserved(first), reserved(later)], "{shape}");
        is_above |= dry.later.reserved < dry.first.reserved;
    }
    assert!(is_above, "no first step holds more than later ones");
}

#[test]
fn a_mixed_run_is_planned_as_a_whole() {
    let _alone = alone();
    let Some((planner, device)) = open() else { return };
    let step = Step::new(&device);
    let shapes = [(8, 32), (2, 48), (12, 32), (4, 32), (8, 48), (16, 16), (3, 64), (8, 32)];
    let dry = shapes.map(|(n, edge)| Act::of(Phase::Train, StepShape::new(n, edge), n));
    let dry = planner.rehearse(&step, &dry).unwrap();
    let real = shapes.map(|(n, edge)| Real::of(Phase::Train, StepShape::new(n, edge), n));
    let reserved = |pools: &[Pools]| pools.iter().map(|it| it.reserved).collect::<Vec<_>>();
    assert_eq!(reserved(&dry.after), reserved(&run(&planner, &step, &real)));
}

/// Returns every parameter as bits.
fn parameters(net: &Net) -> Vec<u32> {
    struct Bits(Vec<u32>);
    impl ModuleVisitor for Bits {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.extend(param.val().into_data().iter::<f32>().map(f32::to_bits));
        }
    }
    let mut bits = Bits(Vec::new());
    net.visit(&mut bits);
    bits.0
}

/// Returns the optimizer's state as it is saved.
fn saved(optimizer: &ModuleOptimizer) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    optimizer.save(folder.path().join("optimizer")).unwrap();
    let files = std::fs::read_dir(folder.path()).unwrap();
    files.flat_map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect()
}

/// Trains two steps, plans between them where asked to, and returns the parameters after each.
fn trained(planner: &DryRunPlanner, device: &Device, plans: bool) -> Vec<Vec<u32>> {
    let step = Step::new(device);
    device.seed(5);
    let (mut net, mut optimizer) = step.start();
    let mut after = Vec::new();
    for at in 0..2 {
        let values: Vec<f32> = (0..4 * 3 * 16 * 16).map(|i| ((i * 31 + at) % 17) as f32 / 17.0).collect();
        let images = Tensor::from_data(TensorData::new(values, [4, 3, 16, 16]), device);
        let gradients = GradientsParams::from_grads(net.mean_loss(images).backward(), &net);
        net = optimizer.step(1e-2, net, gradients);
        after.push(parameters(&net));
        if plans {
            let before = saved(&optimizer);
            let mut sweep = Sweep::try_new(planner, &step, Phase::Train).unwrap();
            let shapes = [(4, 16), (8, 16), (32, 64)].map(|(n, edge)| StepShape::new(n, edge));
            sweep.cells(&shapes, &|_| 8, &mut |_, _| ()).unwrap();
            assert!(parameters(&net) == after[at] && saved(&optimizer) == before, "after step {at}");
        }
    }
    after
}

#[test]
fn planning_changes_no_bit_of_a_model_that_is_being_trained() {
    let _alone = alone();
    let Some((planner, device)) = open() else { return };
    let without = trained(&planner, &device, false);
    assert!(without[0].len() > 3000 && without[0] != without[1], "the second step changes something");
    assert!(trained(&planner, &device, true) == without);
}

#[test]
fn an_upload_that_is_dropped_makes_room_at_once() {
    let _alone = alone();
    let Some((planner, device)) = open() else { return };
    let device = device.inner();
    let image = || Tensor::<1>::from_data(TensorData::new(vec![0.5_f32; 3 << 18], [3 << 18]), &device);
    let reserved = |hand_over: &dyn Fn(Tensor<1>) -> Tensor<1>| {
        let before = planner.pools(&device).reserved;
        planner.really(&device, || (0..4).for_each(|_| drop(hand_over(image()))));
        planner.pools(&device).reserved.saturating_sub(before)
    };
    // A page has one MiB more than the image of 3 MiB that it was opened for.
    assert_eq!(reserved(&|image| uploaded(image, &device)), Bytes::mib(4));
    // The queue holds what nobody has handed over: a step that drops its input would find its place taken.
    assert_eq!(reserved(&|image| image), Bytes::mib(16));
}

#[test]
fn a_step_that_reads_a_value_is_refused() {
    let _alone = alone();
    let Some((planner, device)) = open() else { return };
    let step = Step { reads: true, ..Step::new(&device) };
    let act = Act::of(Phase::Train, StepShape::new(4, 16), 4);
    let error = planner.rehearse(&step, std::slice::from_ref(&act)).unwrap_err();
    assert!(matches!(error, PlanError::ReadsValue { .. }), "{error}");
    assert!(error.to_string().contains("4 × 16"), "{error}");
    planner.rehearse(&Step::new(&device), &[act]).unwrap();
}

#[test]
fn a_tensor_that_no_page_holds_never_fits() {
    let _alone = alone();
    let Some((planner, device)) = open() else { return };
    let step = Step::new(&device);
    let limit = planner.page_limit().unwrap();
    // Its 16 feature planes are twice the limit, and its input is well below it.
    let edge = 1024;
    let of_one = Bytes(16 * 4 * u64::from(edge * edge));
    let n = u32::try_from(2 * limit.0 / of_one.0).unwrap().max(2);
    let mut sweep = Sweep::try_new(&planner, &step, Phase::Infer).unwrap();
    let shapes = [StepShape::new(1, edge), StepShape::new(n, edge)];
    let cells = sweep.cells(&shapes, &|_| 1, &mut |_, _| ()).unwrap();
    assert_eq!(cells[0].cell.fit, Fit::Fits);
    assert_eq!(cells[1].cell.fit, Fit::NeverFits, "{:?}", cells[1]);
    assert!(limit < cells[1].cell.largest_allocation, "{limit} {:?}", cells[1]);
    let mut sweep = Sweep::try_new(&planner, &step, Phase::Infer).unwrap();
    let error = sweep.cells(&shapes[1..], &|_| 1, &mut |_, _| ()).unwrap_err();
    assert!(matches!(error, PlanError::NeverFits { .. }), "{error}");
}
