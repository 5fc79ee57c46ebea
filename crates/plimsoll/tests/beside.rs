//! A program's own loop, whose parts run side by side on a CPU.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../probe/tests/alone/mod.rs"]
mod alone;

use std::sync::Mutex;
use std::thread::{self, ThreadId};

use alone::alone;
use burn::data::dataloader::batcher::Batcher;
use burn::data::dataset::InMemDataset;
use burn::module::Module;
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::optim::AdamConfig;
use burn::tensor::{Device, Tensor};
use plimsoll::{Bytes, Done, Error, Step, TrackingAllocator, step};

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

const WIDTH: usize = 128;
const N_SAMPLES: u16 = 960;

#[derive(Module, Debug)]
struct Net {
    first: Linear,
    norm: Option<BatchNorm>,
    last: Linear,
}

impl Net {
    fn init(with_norm: bool, device: &Device) -> Self {
        device.seed(7);
        let layer = |wide| LinearConfig::new(WIDTH, wide).init(device);
        let norm = with_norm.then(|| BatchNormConfig::new(WIDTH).init(device));
        let net = Self { first: layer(WIDTH), norm, last: layer(1) };
        // Weights are drawn when they are first used.
        drop(net.loss(&[0.0; 2], device));
        net
    }

    fn loss(&self, rows: &[f32], device: &Device) -> Tensor<1> {
        let mut values = Vec::with_capacity(rows.len() * WIDTH);
        values.extend(rows.iter().flat_map(|row| (0..WIDTH).map(move |at| row * at as f32 / WIDTH as f32)));
        self.loss_of(Tensor::<1>::from_floats(&*values, device).reshape([rows.len(), WIDTH]))
    }

    fn loss_of(&self, rows: Tensor<2>) -> Tensor<1> {
        let hidden = self.first.forward(rows).tanh();
        let hidden = match &self.norm {
            Some(norm) => norm.forward(hidden.unsqueeze_dim::<3>(2)).squeeze_dim(2),
            None => hidden,
        };
        self.last.forward(hidden).powi_scalar(2).mean()
    }
}

fn rows(n: u16) -> Vec<f32> {
    (0..n).map(|at| f32::from(at) / f32::from(n)).collect()
}

/// Runs steps side by side, and returns what they did, and the threads that parts of the last one ran on.
fn train(step: &mut Step<Net>, n_steps: usize) -> (Vec<Done>, usize) {
    let (device, rows, threads) = (Device::flex().autodiff(), rows(N_SAMPLES), Mutex::new(Vec::<ThreadId>::new()));
    let run = |_| {
        threads.lock().unwrap().clear();
        let loss = |net: &Net, part: Vec<f32>| {
            threads.lock().unwrap().push(thread::current().id());
            net.loss(&part, &device)
        };
        step.run_beside(&rows, |_| 1, 1e-3, loss).unwrap()
    };
    let done = (0..n_steps).map(run).collect();
    let mut threads = threads.into_inner().unwrap();
    threads.sort_by_key(|it| format!("{it:?}"));
    threads.dedup();
    (done, threads.len())
}

fn weights(step: &Step<Net>) -> Vec<f32> {
    step.model().first.weight.val().into_data().iter::<f32>().collect()
}

#[test]
fn a_step_is_divided_between_replicas_below_the_budget_and_every_sample_counts_once() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let build = |n| step(&device, Net::init(false, &device), AdamConfig::new().init()).replicas(n);
    let mut step = build(3).build().unwrap();
    let (done, n_threads) = train(&mut step, 4);
    assert_eq!(n_threads, 3);
    for Done { parts, peak, budget, failures, .. } in &done {
        assert!(peak <= budget && failures.is_empty());
        assert_eq!(parts.iter().map(|it| it.samples.len()).sum::<usize>(), usize::from(N_SAMPLES));
    }
    assert_eq!(done[3].parts.iter().map(|it| it.samples.len()).collect::<Vec<_>>(), [320; 3]);
    // The same parts, one after the other, come to the same bits.
    let mut same = build(1).micro_batch(320).build().unwrap();
    let mut beside = build(3).micro_batch(320).build().unwrap();
    let losses = |done: &[Done]| done.iter().map(|it| it.loss.to_bits()).collect::<Vec<_>>();
    assert_eq!(losses(&train(&mut same, 4).0), losses(&train(&mut beside, 4).0));
    assert!(weights(&same) == weights(&beside), "the weights are others");
}

#[test]
fn a_small_budget_is_never_passed_by_parts_together() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let build = || step(&device, Net::init(false, &device), AdamConfig::new().init()).replicas(2).budget(1.0);
    // What the threads keep is there from now on.
    let mut whole = build().build().unwrap();
    let in_use = plimsoll_probe::open(plimsoll_probe::DeviceKind::Flex, None).unwrap().read().unwrap().in_use;
    let needed = train(&mut whole, 3).0.iter().map(|it| it.peak).max().unwrap();
    drop(whole);
    let capacity = in_use.saturating_add(Bytes(needed.saturating_sub(in_use).0 * 3 / 4));
    let mut small = build().capacity(capacity).build().unwrap();
    for done in train(&mut small, 6).0 {
        assert!(done.peak <= capacity, "{} of {capacity}", done.peak);
        assert_eq!(done.parts.iter().map(|it| it.samples.len()).sum::<usize>(), usize::from(N_SAMPLES));
    }
}

#[test]
fn a_batch_normalisation_sees_the_whole_step() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let net = Net::init(true, &device);
    let mut step = step(&device, net, AdamConfig::new().init()).replicas(2).build().unwrap();
    let (done, n_threads) = train(&mut step, 3);
    assert_eq!((done[2].parts.len(), n_threads), (1, 1));
}

/// Fails on a sample that is not a number.
struct Rows;

impl Batcher<f32, Tensor<2>> for Rows {
    fn batch(&self, rows: Vec<f32>, device: &Device) -> Tensor<2> {
        assert!(rows.iter().all(|it| it.is_finite()), "a row is no number");
        let values: Vec<f32> = rows.iter().flat_map(|row| [*row; WIDTH]).collect();
        Tensor::<1>::from_floats(&*values, device).reshape([rows.len(), WIDTH])
    }
}

#[test]
fn a_batcher_that_fails_on_one_of_the_threads_is_named_and_nothing_has_happened() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let mut step = step(&device, Net::init(false, &device), AdamConfig::new().init()).replicas(2).build().unwrap();
    let batches = |rows| plimsoll::batches(InMemDataset::new(rows), Rows).effective_batch(64).build().unwrap();
    let (good, mut bad) = (batches(rows(64)), rows(64));
    bad[40] = f32::NAN;
    let bad = batches(bad);
    let mut run = |batches: &plimsoll::Batches<f32, Tensor<2>>| {
        let samples = batches.epoch(0).next().unwrap().unwrap();
        step.run_batches_beside(batches, &samples, 1e-3, Net::loss_of)
    };
    for _ in 0..3 {
        assert!(run(&good).is_ok());
    }
    let error = run(&bad).unwrap_err();
    assert!(matches!(error, Error::Batches(_)) && error.to_string().contains("a row is no number"), "{error}");
    assert_eq!(run(&good).unwrap().parts.len(), 2);
    assert_eq!(step.n_steps(), 4);
}

#[test]
fn none_at_all_is_refused() {
    let device = Device::flex().autodiff();
    let built = step(&device, Net::init(false, &device), AdamConfig::new().init()).replicas(0).build();
    let error = built.err().unwrap().to_string();
    assert_eq!(error, "use `replicas` of 0: it is a number of threads from 1");
}
