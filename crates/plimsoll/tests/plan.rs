//! What a program's own steps need, and the batch that fits, before it trains.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../probe/tests/alone/mod.rs"]
mod alone;

use std::cell::RefCell;

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor};
use plimsoll::{Bytes, Limit, TrackingAllocator, find_batch_size, find_inference_batch, plan};
use plimsoll_probe::{DeviceKind, Probe, open};
use plimsoll_train::warm_up;

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

const WIDTH: usize = 128;

/// Lets no other test run beside this one. What the threads that compute keep for good is there from then on, as it is before a
/// program is planned.
fn alone() -> alone::Alone {
    let alone = alone::alone();
    warm_up(DeviceKind::Flex, &Device::flex());
    alone
}

#[derive(Module, Debug)]
struct Net {
    first: Linear,
    last: Linear,
}

impl Net {
    fn init(device: &Device) -> Self {
        let layer = |wide| LinearConfig::new(WIDTH, wide).init(device);
        Self { first: layer(WIDTH), last: layer(1) }
    }

    fn forward(&self, vectors: Tensor<3>) -> Tensor<2> {
        // A product of many small matrices would take another way, with more memory, from some number of them on.
        let [n, length, width] = vectors.dims();
        let rows = vectors.reshape([n * length, width]);
        self.last.forward(self.first.forward(rows).tanh())
    }

    fn loss(&self, vectors: Tensor<3>) -> Tensor<1> {
        self.forward(vectors).powi_scalar(2).mean()
    }
}

fn made(device: &Device) -> (Net, ModuleOptimizer) {
    (Net::init(device), AdamConfig::new().init())
}

fn blank(n: usize, length: usize, device: &Device) -> Tensor<3> {
    Tensor::zeros([n, length, WIDTH], device)
}

fn probe() -> Box<dyn Probe> {
    open(DeviceKind::Flex, None).unwrap()
}

fn in_use() -> Bytes {
    probe().read().unwrap().in_use
}

/// Trains a few steps as Burn's own loop does, and returns their high-water mark.
fn peak_of_own_loop(n: u32, length: u32, device: &Device) -> Bytes {
    let (mut net, mut optimizer) = made(device);
    let mut probe = probe();
    probe.reset_peak().unwrap();
    for _ in 0..3 {
        let gradients = net.loss(blank(n as usize, length as usize, device)).backward();
        let gradients = GradientsParams::from_grads(gradients, &net);
        net = optimizer.step(1e-3, net, gradients);
    }
    probe.read().unwrap().peak
}

#[test]
fn a_plan_bounds_what_burns_own_loop_reaches_closely() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let shapes = [(8, 16), (64, 16), (8, 64), (32, 64), (1, 256), (8, 256)];
    let plan = plan(&device, || made(&device), |n, length| blank(n, length, &device), Net::loss).shapes(shapes);
    let plan = plan.capacity(in_use().saturating_add(Bytes::mib(64))).run().unwrap();
    assert_eq!(plan.shapes.iter().map(|it| (it.samples, it.edge)).collect::<Vec<_>>(), shapes);
    for it in &plan.shapes {
        assert!(it.fits && it.expected <= it.upper && it.upper <= plan.budget, "{plan}");
        let before = in_use();
        let own = peak_of_own_loop(it.samples, it.edge, &device);
        assert!(own <= it.upper, "{} × {} reached {own}: {plan}", it.samples, it.edge);
        let (need, bound) = (own.saturating_sub(before), it.upper.saturating_sub(before));
        // On a CPU a bound has 64 KiB for tables that grow by doubling, and the most that products of matrices have packed, which
        // depends on the processor.
        let on_top = Bytes::kib(128).saturating_add(probe().read().unwrap().packed);
        assert!(
            bound.as_f64() < need.as_f64() * 1.1 + on_top.as_f64(),
            "{} × {} needs {need}: {plan}",
            it.samples,
            it.edge
        );
    }
}

#[test]
fn what_does_not_fit_is_said_without_running_it() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let asked = RefCell::new(Vec::new());
    let batch = |n, length| {
        asked.borrow_mut().push((n, length));
        blank(n, length, &device)
    };
    let capacity = in_use().saturating_add(Bytes::mib(16));
    let shapes = [(1, 64), (16, 64), (4, 256), (4096, 256)];
    let mut probe = probe();
    probe.reset_peak().unwrap();
    let plan = plan(&device, || made(&device), batch, Net::loss).shapes(shapes).capacity(capacity).run().unwrap();
    let reached = probe.read().unwrap().peak;
    assert!(reached <= capacity, "{reached} of {capacity}");
    assert_eq!(plan.shapes.iter().map(|it| it.fits).collect::<Vec<_>>(), [true, true, true, false], "{plan}");
    assert_eq!([64, 256, 512].map(|edge| plan.largest(edge)), [Some(16), Some(4), None]);
    // Between what was asked for, only edges that a model of these takes.
    let asked = asked.into_inner();
    assert!(!asked.is_empty() && asked.iter().all(|(n, length)| *n <= 16 && length % 64 == 0), "{asked:?}");
    assert!(plan.to_string().contains("4096 × 256"), "{plan}");
}

#[test]
fn a_part_of_a_larger_step_needs_its_gradients_besides() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let planned = |n: u32| {
        // Large enough for the passes to take more than the optimizer's step.
        let builder =
            plan(&device, || made(&device), |n, length| blank(n, length, &device), Net::loss).shapes([(32, 16)]);
        let capacity = in_use().saturating_add(Bytes::mib(16));
        let plan = builder.effective_batch(n).capacity(capacity).run().unwrap();
        (plan.shapes[0].expected, plan.shapes[0].upper)
    };
    let ((whole, _), (part, upper)) = (planned(32), planned(128));
    assert!(whole < part, "{whole} {part}");
    let (net, optimizer) = made(&device);
    let mut step = plimsoll::step(&device, net, optimizer).micro_batch(32).build().unwrap();
    for _ in 0..3 {
        let done = step.run(&[(); 128], 1e-3, |net, part: Vec<()>| net.loss(blank(part.len(), 16, &device))).unwrap();
        assert_eq!(done.parts.len(), 4);
        assert!(done.peak <= upper, "{} {upper}", done.peak);
    }
}

#[test]
fn the_batch_that_is_found_is_within_the_budget_and_near_the_largest_that_is() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let capacity = in_use().saturating_add(Bytes::mib(16));
    let search = find_batch_size(&device, || made(&device), |n, length| blank(n, length, &device), Net::loss);
    let found = search.edge(16).capacity(capacity).budget(0.8).run().unwrap();
    assert_eq!(found.found.limit, Limit::Memory, "{found:?}");
    let (batch, largest, budget) = (found.batch(), found.found.largest, found.found.budget);
    assert!(batch <= largest && largest < 4096 && found.n_plans == 0, "{found:?}");
    let own = |n| peak_of_own_loop(n, 16, &device);
    assert!(own(largest) <= budget, "{largest} take {}, of {budget}", own(largest));
    let more = largest + largest.div_ceil(8);
    assert!(budget < own(more), "{more} take {}, of {budget}", own(more));
}

#[test]
fn as_many_as_are_allowed_are_found_where_all_fit_and_the_fastest_is_one_of_them() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let search = || find_batch_size(&device, || made(&device), |n, _| blank(n, 1, &device), Net::loss).batches(2..=8);
    let found = search().run().unwrap();
    assert_eq!((found.batch(), found.found.limit), (8, Limit::BatchMax));
    let fastest = search().fastest().run().unwrap();
    assert!((2..=8).contains(&fastest.batch()) && fastest.winner.is_some(), "{fastest:?}");
}

#[test]
fn the_batch_for_inference_is_larger_than_that_for_training_and_runs_within_the_budget() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let capacity = in_use().saturating_add(Bytes::mib(32));
    let training = find_batch_size(&device, || made(&device), |n, length| blank(n, length, &device), Net::loss);
    let training = training.edge(16).capacity(capacity).run().unwrap();
    let (net, plain) = (Net::init(&device).valid(), device.clone().inner());
    let search = find_inference_batch(&plain, &net, |n, length| blank(n, length, &plain), Net::forward);
    let found = search.edge(16).capacity(capacity).run().unwrap();
    assert!(training.batch() < found.batch() && found.found.limit == Limit::Memory, "{training:?} {found:?}");
    let mut probe = probe();
    probe.reset_peak().unwrap();
    drop(net.forward(blank(found.batch() as usize, 16, &plain)).into_data());
    let peak = probe.read().unwrap().peak;
    assert!(peak <= found.found.budget, "{peak} of {}", found.found.budget);
}
