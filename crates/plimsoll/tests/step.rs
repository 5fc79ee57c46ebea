//! A program's own loop, under a budget.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../probe/tests/alone/mod.rs"]
mod alone;

use std::cell::RefCell;

use alone::alone;
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, AdamWConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Distribution, Tensor};
use plimsoll::{Bytes, Error, Step, StepError, TrackingAllocator, step};
use plimsoll_probe::{DeviceKind, open};
use plimsoll_train::warm_up;

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

const WIDTH: usize = 256;

/// A sample: a row of numbers.
type Row = Vec<f32>;

#[derive(Module, Debug)]
struct Net {
    first: Linear,
    last: Linear,
}

impl Net {
    fn init(device: &Device) -> Self {
        device.seed(7);
        let layer = |wide| LinearConfig::new(WIDTH, wide).init(device);
        let net = Self { first: layer(WIDTH), last: layer(1) };
        // Weights are drawn when they are first used.
        drop(net.loss(&[vec![0.0; WIDTH]], device));
        net
    }

    fn loss(&self, rows: &[Row], device: &Device) -> Tensor<1> {
        let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
        // One that doubles as it grows has room for as many again at some sizes.
        let mut values = Vec::with_capacity(rows.len() * longest);
        for row in rows {
            values.extend_from_slice(row);
            values.resize(values.len() + longest - row.len(), 0.0);
        }
        let rows = Tensor::<1>::from_floats(&*values, device).reshape([rows.len() * longest / WIDTH, WIDTH]);
        self.last.forward(self.first.forward(rows).tanh()).powi_scalar(2).mean()
    }

    fn weights(&self) -> Vec<f32> {
        self.first.weight.val().into_data().iter().collect()
    }
}

fn row(n_vectors: usize, seed: usize) -> Row {
    (0..n_vectors * WIDTH).map(|at| ((at * 7919 + seed * 104_729) % 97) as f32 / 97.0).collect()
}

fn rows(n: usize) -> Vec<Row> {
    (0..n).map(|seed| row(4, seed)).collect()
}

/// The share of the capacity that a step may use.
const TARGET: f64 = 0.9;

/// Returns the capacity whose target leaves so much room beside what is in use, with what each thread keeps for its products.
fn with_room(room: Bytes) -> Bytes {
    warm_up(DeviceKind::Flex, &Device::flex());
    let in_use = open(DeviceKind::Flex, None).unwrap().read().unwrap().in_use;
    Bytes::from_f64_ceil(in_use.saturating_add(room).as_f64() / TARGET)
}

fn of_net(device: &Device, optimizer: ModuleOptimizer, capacity: Bytes) -> Step<Net> {
    step(device, Net::init(device), optimizer).budget(TARGET).capacity(capacity).build().unwrap()
}

#[test]
fn parts_grow_to_what_is_certain_to_fit_and_never_pass_the_budget() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let rows = rows(512);
    let mut step = of_net(&device, AdamConfig::new().init(), with_room(Bytes::mib(4)));
    let mut n_parts = Vec::new();
    for _ in 0..6 {
        let done = step.run(&rows, 1e-3, |net, part| net.loss(&part, &device)).unwrap();
        assert!(done.failures.is_empty() && done.peak <= done.budget, "{} {}", done.peak, done.budget);
        n_parts.push(done.parts.len());
    }
    assert!((2..200).contains(&n_parts[0]), "one, two and eight samples have shown what more need: {n_parts:?}");
    // All at once would take 2 MiB for each of some activations of the 512 samples and their gradients.
    assert!((2..64).contains(n_parts.last().unwrap()), "{n_parts:?}");
}

#[test]
fn parts_of_any_size_train_as_the_whole_step_does() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let rows = rows(24);
    let train = |micro_batch: u32| {
        let step = step(&device, Net::init(&device), AdamWConfig::new().init()).micro_batch(micro_batch);
        let mut step = step.build().unwrap();
        let losses: Vec<_> =
            (0..3).map(|_| step.run(&rows, 1e-5, |net, part| net.loss(&part, &device)).unwrap().loss).collect();
        (losses, step.into_model().unwrap().weights())
    };
    let (losses, whole) = train(24);
    assert!(losses.is_sorted_by(|a, b| b < a), "{losses:?}");
    for micro_batch in [1, 7, 23] {
        let (_, parts) = train(micro_batch);
        let furthest = whole.iter().zip(&parts).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        // Each step moves a weight by about the rate.
        assert!(furthest < 1e-6, "{furthest} in parts of {micro_batch}");
    }
}

#[test]
fn a_step_in_one_part_is_burns_own_to_the_bit() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let rows = rows(8);
    let mut adopted = step(&device, Net::init(&device), AdamConfig::new().init()).micro_batch(8).build().unwrap();
    let (mut own, mut optimizer) = (Net::init(&device), AdamConfig::new().init());
    for _ in 0..3 {
        adopted.run(&rows, 1e-2, |net, part| net.loss(&part, &device)).unwrap();
        let gradients = GradientsParams::from_grads(own.loss(&rows, &device).backward(), &own);
        own = optimizer.step(1e-2, own, gradients);
    }
    let bits = |net: &Net| net.weights().iter().map(|it| it.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(adopted.model()), bits(&own));
}

#[test]
fn samples_of_many_lengths_run_longest_first_and_each_once() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let rows: Vec<Row> = [1, 8, 3, 8, 2].iter().enumerate().map(|(seed, n)| row(*n, seed)).collect();
    let mut step = of_net(&device, AdamConfig::new().init(), with_room(Bytes::mib(56)));
    let length = |row: &Row| u32::try_from(row.len()).unwrap();
    // Before the first step, one and two of the longest show what they need.
    for sounded in [&[8, 8, 8][..], &[]] {
        let seen = RefCell::new(Vec::new());
        let loss = |net: &Net, part: Vec<Row>| {
            seen.borrow_mut().extend(part.iter().map(|it| it.len() / WIDTH));
            net.loss(&part, &device)
        };
        step.run_by(&rows, length, 1e-3, loss).unwrap();
        assert_eq!(seen.into_inner(), [sounded, &[8, 8, 3, 2, 1]].concat());
    }
}

#[test]
fn what_cannot_be_run_is_refused_by_name() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let build =
        |device: &Device, budget| step(device, Net::init(device), AdamConfig::new().init()).budget(budget).build();
    let refused = |error: Option<Error>, part: &str| {
        let text = error.unwrap().to_string();
        assert!(text.contains(part), "{text}");
    };
    refused(build(&Device::flex(), 0.9).err(), "it has no gradients, `device.autodiff()` has");
    for budget in [0.0, 1.5, f64::NAN] {
        refused(build(&device, budget).err(), "a share of the capacity, above 0 and at most 1");
    }
    let mut step = build(&device, 0.9).unwrap();
    let before = step.model().weights();
    let none: [Row; 0] = [];
    refused(step.run(&none, 1e-3, |net, part| net.loss(&part, &device)).err(), "there is no sample in it");
    let length = |row: &Row| u32::try_from(row.len() / WIDTH).unwrap();
    let mixed = [row(1, 0), Row::new(), row(3, 2)];
    refused(step.run_by(&mixed, length, 1e-3, |net, part| net.loss(&part, &device)).err(), "sample 1 has length 0");
    let mut small = of_net(&device, AdamConfig::new().init(), Bytes::kib(64));
    let mixed = [row(1, 0), row(3, 1), row(2, 2)];
    let error = small.run_by(&mixed, length, 1e-3, |net, part| net.loss(&part, &device)).err();
    refused(error, "sample 1, of length 3: one sample alone does not fit");
    let several = |net: &Net, part: Vec<Row>| net.loss(&part, &device).repeat(&[3]);
    refused(step.run(&rows(2), 1e-3, several).err(), "the loss has 3 values");
    let endless = |net: &Net, part: Vec<Row>| net.loss(&part, &device) * f32::INFINITY;
    refused(step.run(&rows(2), 1e-3, endless).err(), "is not finite");
    assert_eq!(step.model().weights(), before, "nothing has happened");
}

#[test]
fn halves_are_as_long_as_their_own_longest_sample_and_a_copy_costs_no_certainty() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let rows: Vec<Row> = [1, 1, 4096, 1, 1, 1, 1, 1].iter().enumerate().map(|(seed, n)| row(*n, seed)).collect();
    let length = |row: &Row| u32::try_from(row.len()).unwrap();
    // One of the longest takes 4 MiB for each of its tensors, and eight padded to it as many as these times eight.
    let step = step(&device, Net::init(&device), AdamConfig::new().init()).keeping_a_copy().micro_batch(8);
    let mut step = step.capacity(with_room(Bytes::mib(84))).build().unwrap();
    let mut n_failures = Vec::new();
    for _ in 0..3 {
        let done = step.run_by(&rows, length, 1e-3, |net, part| net.loss(&part, &device)).unwrap();
        let mut lengths: Vec<_> = rows.iter().map(length).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        for part in &done.parts {
            assert_eq!(part.extent.edge(), lengths[part.samples.start], "{part:?}");
        }
        assert_eq!(done.parts.iter().map(|it| it.samples.len()).sum::<usize>(), 8);
        assert!(1 < done.parts.len());
        n_failures.push(done.failures.len());
    }
    assert!(0 < n_failures[0], "eight fit at once");
    assert_eq!(n_failures[1..], [0, 0], "what does not fit is known by now");
}

#[test]
fn an_optimizer_that_runs_out_of_memory_is_taken_again_from_its_copy_with_the_same_samples_and_seed() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let (rows, heap) = (rows(4), open(DeviceKind::Flex, None).unwrap());
    let build = |capacity| {
        let built = step(&device, Net::init(&device), AdamConfig::new().init()).seed(5).micro_batch(4);
        built.keeping_a_copy().capacity(capacity).build().unwrap()
    };
    // The first step takes most, for it makes the moments.
    let mut undisturbed = build(Bytes::gib(1));
    let before = heap.read().unwrap().in_use;
    let need = undisturbed.run(&rows, 1e-3, |net, part| net.loss(&part, &device)).unwrap().peak;
    let need = need.saturating_sub(before);
    // So many attempts find that much less room when the optimizer steps.
    let run = |n_crowded: usize| {
        let (crowd, drawn) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
        let mut step = build(Bytes::gib(1));
        let before = step.model().weights();
        let room = heap.read().unwrap().in_use.saturating_add(need).saturating_add(Bytes::kib(128));
        step = build(room);
        let ran = step.run(&rows, 1e-3, |net, part| {
            drawn.borrow_mut().push(Tensor::<1>::random([1], Distribution::Default, &device).into_scalar::<f32>());
            *crowd.borrow_mut() = vec![1_u8; if drawn.borrow().len() <= n_crowded { 256 << 10 } else { 0 }];
            net.loss(&part, &device)
        });
        (ran, drawn.into_inner(), step, before)
    };
    let (done, drawn, again, _) = run(1);
    assert_eq!((done.unwrap().parts.len(), again.n_steps()), (1, 1));
    assert_eq!(drawn.len(), 2, "it was to fail once");
    assert_eq!(drawn[0].to_bits(), drawn[1].to_bits());
    assert_eq!(again.model().weights(), undisturbed.model().weights());
    let (failed, drawn, mut step, before) = run(2);
    assert!(matches!(failed, Err(Error::Step(StepError::OutOfMemory(_)))), "{failed:?}");
    assert_eq!((drawn.len(), step.model().weights()), (2, before));
    step.run(&rows, 1e-3, |net, part| net.loss(&part, &device)).unwrap();
    assert_eq!(step.model().weights(), undisturbed.model().weights());
}

#[test]
fn tokens_may_count_instead_of_samples() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let rows: Vec<Row> = [4, 1, 2].iter().enumerate().map(|(seed, n)| row(*n, seed)).collect();
    let length = |row: &Row| u32::try_from(row.len() / WIDTH).unwrap();
    let loss = |micro_batch: u32| {
        let step = step(&device, Net::init(&device), AdamConfig::new().init()).mean_over_positions();
        let mut step = step.micro_batch(micro_batch).build().unwrap();
        // The mean over all vectors, of which a row has several.
        let mean = |net: &Net, part: Vec<Row>| {
            let vectors: Vec<Row> = part.concat().chunks(WIDTH).map(<[f32]>::to_vec).collect();
            net.loss(&vectors, &device)
        };
        step.run_by(&rows, length, 1e-3, mean).unwrap().loss
    };
    let (whole, parts) = (loss(3), loss(1));
    assert!((whole - parts).abs() < 1e-6 * whole.abs(), "{whole} {parts}");
}
