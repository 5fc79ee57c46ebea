//! Parts of a step side by side, on a CPU.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../probe/tests/alone/mod.rs"]
mod alone;

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::optim::{AdamConfig, ModuleOptimizer};
use burn::tensor::{Device, Tensor};
use plimsoll_probe::{DeviceKind, TrackingAllocator, open};
use plimsoll_step::{
    Commit, GuardedStep, Loss, OptimizerRecovery, RanPart, Replicas, StepOutcome, StepPart, StepRequest, TrainState,
    Update,
};
use plimsoll_types::{Budget, Bytes, Knobs, Prediction, StepShape};

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

const WIDTH: usize = 64;
const N_SAMPLES: usize = 300;
/// What is allowed for a sample, and for the gradients of a part: more than they need.
const OF_SAMPLE: Bytes = Bytes::kib(64);
const OF_PART: Bytes = Bytes::kib(256);

/// Runs a test beside no other, on a thread that is gone before the next begins, and that computes alone as replicas do.
fn alone(test: impl FnOnce() + Send) {
    let _alone = alone::alone();
    let test = || {
        rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build().unwrap();
        test();
    };
    thread::scope(|scope| scope.spawn(test).join()).unwrap_or_else(|panic| resume_unwind(panic));
}

#[derive(Module, Debug)]
struct Net {
    first: Linear,
    norm: Option<BatchNorm>,
    last: Linear,
    /// No pass uses it, so that no step changes it.
    idle: Linear,
}

impl Net {
    fn mean_loss(&self, samples: Tensor<2>) -> Loss {
        let hidden = self.first.forward(samples).tanh();
        let hidden = match &self.norm {
            Some(norm) => norm.forward(hidden.unsqueeze_dim::<3>(2)).squeeze_dim(2),
            None => hidden,
        };
        self.last.forward(hidden).powi_scalar(2).mean().into()
    }
}

#[derive(Default)]
struct Weights(Vec<u32>);

impl ModuleVisitor for Weights {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.extend(param.val().into_data().iter::<f32>().map(f32::to_bits));
    }
}

type Wait = Box<dyn Fn(usize) + Send + Sync>;

struct Bench {
    step: GuardedStep,
    state: TrainState<Net>,
    samples: Tensor<2>,
    /// The threads that parts ran on.
    threads: Mutex<Vec<ThreadId>>,
    /// What a thread waits for with the graph of a part, by the first of its samples.
    wait: Option<Wait>,
}

impl Bench {
    fn new(with_norm: bool) -> Self {
        let device = Device::flex().autodiff();
        device.seed(5);
        let norm = with_norm.then(|| BatchNormConfig::new(WIDTH).init(&device));
        let layer = |wide| LinearConfig::new(WIDTH, wide).init(&device);
        let net = Net { first: layer(WIDTH), norm, last: layer(1), idle: layer(1) };
        let values: Vec<f32> = (0..N_SAMPLES * WIDTH).map(|at| (at * at % 13) as f32 / 13.0).collect();
        let samples = Tensor::<1>::from_floats(&*values, &device).reshape([N_SAMPLES, WIDTH]);
        drop(net.mean_loss(samples.clone()));
        let step = GuardedStep::new(open(DeviceKind::Flex, None).unwrap(), device);
        let optimizer: ModuleOptimizer = AdamConfig::new().init();
        Self { step, state: TrainState::new(net, optimizer), samples, threads: Mutex::default(), wait: None }
    }

    /// Runs a step in parts of 75 under a budget, above what is in use, for so many halves of them at once.
    fn step(&mut self, replicas: Option<&Replicas>, n_halves: u64) -> StepOutcome {
        let need = Bytes(75 * OF_SAMPLE.0 + OF_PART.0);
        // The gradients of parts before count as in use too.
        let room = OF_PART.saturating_add(Bytes(need.0 * n_halves / 2));
        self.attempt(replicas, room, |n_samples| Bytes(u64::from(n_samples) * OF_SAMPLE.0 + OF_PART.0))
    }

    /// Runs a step in parts of 75 with so much room, where so many samples are said to need so much.
    fn attempt(&mut self, replicas: Option<&Replicas>, room: Bytes, need: fn(u32) -> Bytes) -> StepOutcome {
        let budget = self.step.read().unwrap().in_use.saturating_add(room);
        let request = StepRequest::of_edge(
            N_SAMPLES,
            Knobs { patch_size: 1, micro_batch_size: 75 },
            Budget { capacity: budget, budget },
        );
        let predict = |shape: StepShape, in_use: Bytes| {
            let upper = in_use.saturating_add(need(shape.samples));
            Some(Prediction { expected: upper, upper })
        };
        let (samples, threads, wait) = (&self.samples, &self.threads, &self.wait);
        let mean_loss = |net: &Net, part: Range<usize>| {
            threads.lock().unwrap().push(thread::current().id());
            let loss = net.mean_loss(samples.clone().slice([part.clone()]));
            if let Some(wait) = wait {
                wait(part.start);
            }
            loss
        };
        let model = self.state.model();
        match replicas {
            Some(replicas) => self.step.attempt_beside(model, &request, &predict, (replicas, &mean_loss)).unwrap(),
            None => self.step.attempt(model, &request, &predict, &mean_loss).unwrap(),
        }
    }

    fn commit(&mut self, outcome: StepOutcome) {
        let capacity = Bytes::MAX;
        let update =
            Update { gradients: outcome.gradients, rate: 1e-2.into(), capacity, recovery: OptimizerRecovery::Keep };
        assert!(matches!(self.step.commit(&mut self.state, update).unwrap(), Commit::Done { .. }));
    }

    fn n_threads(&self) -> usize {
        let mut threads = self.threads.lock().unwrap().clone();
        threads.sort_by_key(|it| format!("{it:?}"));
        threads.dedup();
        threads.len()
    }

    fn weights(&self) -> Vec<u32> {
        let mut weights = Weights::default();
        self.state.model().visit(&mut weights);
        weights.0
    }
}

/// Waits until so many have come; not for ever, since a test that fails is better than one that does not end.
fn wait_for(n_there: &AtomicUsize, n: usize) {
    let begun = Instant::now();
    while n_there.load(SeqCst) < n && begun.elapsed() < Duration::from_secs(10) {
        thread::yield_now();
    }
}

/// Lets the first so many wait for one another.
fn meeting(n: usize) -> Wait {
    let n_there = AtomicUsize::new(0);
    Box::new(move |_| {
        n_there.fetch_add(1, SeqCst);
        wait_for(&n_there, n);
    })
}

fn replicas(n: usize) -> Replicas {
    // What a thread keeps for matrix products, for good.
    let ones = || Tensor::<2>::ones([32, 32], &Device::flex());
    Replicas::start(n, || drop(ones().matmul(ones()).into_data())).unwrap()
}

#[test]
fn what_runs_at_once_comes_to_the_same_bits_and_is_measured_as_what_runs_alone() {
    alone(|| {
        let train = |n: usize| {
            let (replicas, mut bench) = ((0 < n).then(|| replicas(n)), Bench::new(false));
            bench.wait = Some(meeting(n));
            let outcomes: Vec<_> = (0..3)
                .map(|_| {
                    let mut outcome = bench.step(replicas.as_ref(), 8);
                    let shown = (outcome.loss.unwrap().to_bits(), outcome.gradient_norm.to_bits());
                    let needs: Vec<_> = outcome
                        .parts
                        .iter()
                        .map(|it| (it.peak.unwrap().saturating_sub(it.resident), it.group))
                        .collect();
                    outcome.parts.clear();
                    bench.commit(outcome);
                    (shown, needs)
                })
                .collect();
            (outcomes, bench.n_threads(), bench.weights())
        };
        let (one_by_one, n_threads, weights) = train(0);
        assert_eq!(n_threads, 1);
        // Three at once, and then one of them runs the fourth.
        let (at_once, n_threads, same) = train(3);
        assert_eq!(n_threads, 3);
        assert!(weights == same, "the weights are others");
        for ((before, _), (shown, beside)) in one_by_one.iter().zip(&at_once) {
            assert_eq!(before, shown);
            assert_eq!(beside.iter().map(|it| it.1).collect::<Vec<_>>(), [0; 4]);
        }
        for at in 0..4 {
            // What one thread holds of a graph another may let go of: the least of three steps has none of that.
            let alone = one_by_one.iter().map(|(_, needs)| needs[at].0).min().unwrap();
            let beside = at_once.iter().map(|(_, needs)| needs[at].0).min().unwrap();
            // The same tensors, and a few KiB of tables.
            assert!(alone.0.abs_diff(beside.0) <= 16 << 10, "part {at}: {alone} alone and {beside} beside others");
        }
    });
}

#[test]
fn no_more_parts_run_at_once_than_are_certain_to_fit_together() {
    alone(|| {
        for (n_halves, groups) in [(3, [0, 1, 2, 3]), (5, [0, 0, 1, 1]), (9, [0, 0, 0, 0])] {
            let mut bench = Bench::new(false);
            let outcome = bench.step(Some(&replicas(4)), n_halves);
            assert_eq!(outcome.parts.iter().map(|it| it.group).collect::<Vec<_>>(), groups, "{n_halves} halves");
            let samples: Vec<_> = outcome.parts.iter().flat_map(|it| it.part.samples.clone()).collect();
            assert!(samples.into_iter().eq(0..N_SAMPLES));
            let is_bounded = |it: &RanPart| it.beside.is_none_or(|group| it.peak.unwrap() <= group.upper);
            assert!(outcome.parts.iter().all(is_bounded), "{:?}", outcome.parts);
            let upper = outcome.parts.iter().filter_map(|it| Some(it.beside?.upper)).max();
            assert!(upper.is_none_or(|upper| outcome.peak <= upper), "{} of {upper:?}", outcome.peak);
        }
    });
}

#[test]
fn parts_that_take_more_together_than_there_is_run_again_one_after_the_other_and_none_is_lost() {
    alone(|| {
        let mut bench = Bench::new(false);
        let needs: Vec<_> =
            bench.step(Some(&replicas(1)), 9).parts.iter().map(|it| it.peak.unwrap().0 - it.resident.0).collect();
        let one = Bytes(needs.into_iter().max().unwrap());
        // All four are said to need next to nothing, and there is room for one.
        let room = Bytes(one.0 * 3 / 2);
        bench.wait = Some(meeting(4));
        let outcome = bench.attempt(Some(&replicas(4)), room, |_| Bytes::kib(1));
        assert_eq!(outcome.parts.iter().map(|it| it.beside).collect::<Vec<_>>(), [None; 4]);
        let samples: Vec<_> = outcome.parts.iter().flat_map(|it| it.part.samples.clone()).collect();
        assert!(samples.into_iter().eq(0..N_SAMPLES));
        let failures = bench.step.take_failures();
        assert!(!failures.is_empty() && failures.iter().all(|it| it.shape == StepShape::new(75, 1)), "{failures:?}");
        assert!(outcome.peak.saturating_sub(outcome.resident) <= room, "what was thrown away counts");
        let (same, mut undivided) = (outcome.gradient_norm, Bench::new(false));
        let norm = undivided.step(Some(&replicas(4)), 9).gradient_norm;
        assert_eq!(same.to_bits(), norm.to_bits());
    });
}

#[test]
fn a_replica_that_is_held_up_leaves_what_is_left_to_the_others() {
    alone(|| {
        let (mut bench, n_done) = (Bench::new(false), AtomicUsize::new(0));
        bench.wait = Some(Box::new(move |first| match first {
            0 => wait_for(&n_done, 3),
            _ => _ = n_done.fetch_add(1, SeqCst),
        }));
        let outcome = bench.step(Some(&replicas(2)), 9);
        assert_eq!(outcome.parts.iter().map(|it| it.group).collect::<Vec<_>>(), [0; 4]);
        assert_eq!(bench.n_threads(), 2);
        let threads = bench.threads.lock().unwrap();
        assert_eq!(threads.iter().filter(|it| **it == threads[0]).count() % 2, 1, "one has done three: {threads:?}");
    });
}

#[test]
fn what_the_optimizer_takes_belongs_to_the_last_part_of_a_group() {
    let beside = Some(Prediction { expected: Bytes(60), upper: Bytes(80) });
    let part = |beside| RanPart {
        part: StepPart { samples: 0..1, extent: 1.into() },
        resident: Bytes(10),
        peak: Some(Bytes(30)),
        page: Bytes::ZERO,
        nodes: 0,
        group: 0,
        beside,
    };
    // After the group 15 are in use, and the optimizer takes 40 on top of them for a moment.
    for (beside, peak) in [(beside, 50), (None, 55)] {
        let mut last = part(beside);
        last.follow(Bytes(15), Bytes(55));
        assert_eq!(last.peak, Some(Bytes(peak)));
    }
}

#[test]
fn weights_that_no_step_changes_keep_nothing_of_the_steps_before() {
    alone(|| {
        let (replicas, mut bench) = (replicas(2), Bench::new(false));
        let mut in_use_after = |n_steps| {
            for _ in 0..n_steps {
                let outcome = bench.step(Some(&replicas), 8);
                bench.commit(outcome);
            }
            bench.step.read().unwrap().in_use
        };
        let (before, after) = (in_use_after(8), in_use_after(64));
        // Tables that Burn keeps may grow once more.
        assert!(after <= before.saturating_add(Bytes::kib(32)), "{before} before 64 steps, {after} after them");
    });
}

#[test]
fn a_model_that_its_passes_change_runs_its_parts_one_after_the_other() {
    alone(|| {
        let mut bench = Bench::new(true);
        let outcome = bench.step(Some(&replicas(4)), 9);
        assert_eq!(outcome.parts.iter().map(|it| it.group).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(bench.n_threads(), 1);
    });
}

#[test]
#[should_panic(expected = "a sample is damaged")]
fn a_panic_in_one_of_them_is_that_of_the_step() {
    alone(|| {
        let mut bench = Bench::new(false);
        let request = StepRequest::of_edge(4, Knobs { patch_size: 1, micro_batch_size: 2 }, Budget::UNBOUNDED);
        let predict = |_, in_use| Some(Prediction { expected: in_use, upper: in_use });
        let mean_loss = |net: &Net, part: Range<usize>| {
            assert!(part.start == 0, "a sample is damaged");
            net.mean_loss(Tensor::ones([2, WIDTH], &Device::flex().autodiff()))
        };
        drop(bench.step.attempt_beside(bench.state.model(), &request, &predict, (&replicas(2), &mean_loss)));
    });
}
