//! Plans and searches on a Vulkan device, where one is installed; a software driver will do.
#![cfg(feature = "vulkan")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../probe/tests/alone/mod.rs"]
mod alone;

use std::hint::black_box;

use alone::alone;
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor};
use plimsoll::{Bytes, Error, Limit, PlanError, find_batch_size, find_inference_batch, plan};
use plimsoll_probe::{DeviceKind, ProbeError, open};
use plimsoll_train::open_device;

const WIDTH: usize = 32;

/// Rows of a sample of edge 1: what software multiplies by narrow matrices takes memory rather than time.
const ROWS: usize = 8;

/// Opens the device, or says why the test is skipped.
fn device() -> Option<Device> {
    match open(DeviceKind::Vulkan(0), None) {
        Ok(_) => Some(open_device(DeviceKind::Vulkan(0)).unwrap()),
        Err(error @ ProbeError::NoDevice { .. }) => {
            eprintln!("skipped: failed to {error}");
            None
        }
        Err(error) => panic!("failed to {error}"),
    }
}

#[derive(Module, Debug)]
struct Net {
    first: Linear,
    last: Linear,
}

impl Net {
    fn loss(&self, rows: Tensor<2>) -> Tensor<1> {
        self.last.forward(self.first.forward(rows).tanh()).powi_scalar(2).mean()
    }
}

fn made(device: &Device) -> (Net, ModuleOptimizer) {
    let layer = |wide| LinearConfig::new(WIDTH, wide).init(device);
    (Net { first: layer(WIDTH), last: layer(WIDTH) }, AdamConfig::new().init())
}

fn blank(n: usize, edge: usize, device: &Device) -> Tensor<2> {
    Tensor::zeros([n * edge * ROWS, WIDTH], device)
}

fn reserved() -> Bytes {
    open(DeviceKind::Vulkan(0), None).unwrap().read().unwrap().reserved
}

/// Returns all pages that nothing is in.
fn clean_up(device: &Device) {
    // What is fused holds what it has not yet dropped.
    device.sync().unwrap();
    device.memory_cleanup();
}

/// Trains as Burn's own loop does, from empty pages, and returns what the device reserves besides then.
fn reserved_by_own_loop(n: usize, edge: usize, device: &Device) -> Bytes {
    clean_up(device);
    // Other threads have streams of their own, and keep their pages.
    let before = reserved();
    let (mut net, mut optimizer) = made(device);
    // The fourth may be the first to find no room between what those before it have left.
    for _ in 0..5 {
        let gradients = net.loss(blank(n, edge, device)).backward();
        // What is fused ends with the pass, as in a step that reads its loss.
        device.flush().unwrap();
        let gradients = GradientsParams::from_grads(gradients, &net);
        net = optimizer.step(1e-3, net, gradients);
        device.sync().unwrap();
    }
    let own = reserved().saturating_sub(before);
    drop((net, optimizer));
    clean_up(device);
    own
}

#[test]
fn a_plan_of_dry_runs_bounds_what_burns_own_loop_reserves_even_beyond_the_capacity() {
    let _alone = alone();
    let Some(device) = device() else { return };
    clean_up(&device);
    let shapes = [(64, 4), (1024, 4), (64, 16)];
    let plan = plan(&device, || made(&device), |n, edge| blank(n, edge, &device), Net::loss).shapes(shapes);
    let plan = plan.capacity(reserved().saturating_add(Bytes::mib(32))).run().unwrap();
    for it in &plan.shapes {
        assert_eq!(it.fits, it.upper <= plan.budget, "{plan}");
    }
    assert!(plan.shapes[0].fits && !plan.shapes[1].fits, "{plan}");
    for it in plan.shapes.iter().filter(|it| it.fits) {
        let own = reserved_by_own_loop(it.samples as usize, it.edge as usize, &device);
        assert!(own <= it.upper, "{} × {} reserved {own}: {plan}", it.samples, it.edge);
    }
}

#[test]
fn the_batch_that_is_found_by_dry_runs_is_confirmed_and_within_the_budget() {
    let _alone = alone();
    let Some(device) = device() else { return };
    clean_up(&device);
    let search = find_batch_size(&device, || made(&device), |n, edge| blank(n, edge, &device), Net::loss);
    let capacity = reserved().saturating_add(Bytes::mib(32));
    let found = search.edge(64).batches(1..=128).capacity(capacity).run().unwrap();
    assert!(found.n_plans > 0 && found.found.limit == Limit::Memory, "{found:?}");
    assert!((1..128).contains(&found.batch()) && found.found.is_measured, "{found:?}");
    let own = reserved_by_own_loop(found.batch() as usize, 64, &device);
    assert!(own <= found.found.budget, "{own}: {found:?}");
}

#[test]
fn a_batch_for_inference_is_found_by_real_runs() {
    let _alone = alone();
    let Some(device) = device() else { return };
    clean_up(&device);
    let (net, plain) = (made(&device).0.valid(), device.clone().inner());
    let forward = |net: &Net, rows| net.last.forward(net.first.forward(rows));
    let search = find_inference_batch(&plain, &net, |n, edge| blank(n, edge, &plain), forward).edge(64);
    let found = search.batches(1..=64).capacity(reserved().saturating_add(Bytes::mib(64))).run().unwrap();
    assert!((1..=64).contains(&found.batch()) && found.found.largest > 1, "{found:?}");
}

#[test]
fn a_step_that_reads_a_value_while_it_is_planned_is_refused() {
    let _alone = alone();
    let Some(device) = device() else { return };
    let reads = |net: &Net, rows| {
        let loss = net.loss(rows);
        black_box(loss.clone().into_scalar::<f32>());
        loss
    };
    let planned = plan(&device, || made(&device), |n, edge| blank(n, edge, &device), reads).shapes([(4, 16)]).run();
    let found = find_batch_size(&device, || made(&device), |n, edge| blank(n, edge, &device), reads).run();
    let Err(Error::Plan(error @ PlanError::ReadsValue { .. })) = planned else { panic!("{planned:?}") };
    for error in [error.to_string(), found.unwrap_err().to_string()] {
        assert!(error.contains("it reads a value from the device, which is garbage while planning"), "{error}");
    }
    // What follows is planned as ever.
    let whole = plan(&device, || made(&device), |n, edge| blank(n, edge, &device), Net::loss).shapes([(4, 16)]).run();
    assert!(whole.unwrap().shapes[0].fits);
}

#[test]
fn a_program_that_panics_while_it_is_planned_leaves_the_device_as_it_was() {
    let _alone = alone();
    let Some(device) = device() else { return };
    let panics = |_: &Net, _: Tensor<2>| panic!("no such class: 17");
    let error = plan(&device, || made(&device), |n, edge| blank(n, edge, &device), panics).shapes([(4, 16)]).run();
    assert!(matches!(error, Err(Error::Panicked { .. })), "{error:?}");
    let ones = Tensor::<1>::ones([4], &device.inner()).into_data().iter::<f32>().sum::<f32>();
    assert!((ones - 4.0).abs() < f32::EPSILON, "launches are dropped no more: {ones}");
}
