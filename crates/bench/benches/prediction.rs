//! How long does a prediction take, and how long the lesson of a step?

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkGroup, BenchmarkId, Criterion, measurement::WallTime};
use plimsoll_bench::run;
use plimsoll_predict::{Certificate, Dtype, Key, Phase, Platform, Predictor, PredictorConfig, ShapeNeed};
use plimsoll_proof::finder::Random;
use plimsoll_proof::{observation, shapes};
use plimsoll_types::{Bytes, Observation, StepShape};

const PLATFORM: Platform = Platform { device: 0, dtype: Dtype::F32, fusion: false, autotune: false };
const KEY: Key = Key { phase: Phase::Train, checkpointing: false, platform: PLATFORM, regime: 0 };

/// Distinct shapes learnt: after the first step, in a settled run, and after many failures and ragged tails.
const OBSERVATIONS: [usize; 3] = [1, 10, 30];

/// Free shapes seen before, more than are kept.
const SEEN: usize = 1000;

/// A shape that none of the observations covers.
const ASKED: StepShape = StepShape::new(12, 160);

fn main() {
    run(|criterion: &mut Criterion| {
        let mut group = criterion.benchmark_group("predict");
        for n in OBSERVATIONS {
            query(&mut group, n);
        }
        for n in OBSERVATIONS {
            predict(&mut group, n);
        }
        for n in OBSERVATIONS {
            observe_known(&mut group, n);
        }
        observe_new(&mut group);
        observe_evicting(&mut group);
        decide(&mut group);
        decide_anew(&mut group);
        step_that_repeats(&mut group);
        step_that_trembles(&mut group);
        step_of_a_new_shape(&mut group);
        group.finish();
    });
}

/// The linear program alone.
fn query(group: &mut BenchmarkGroup<'_, WallTime>, n: usize) {
    let mut certificate = Certificate::default();
    for it in shapes(n).map(observation) {
        let need = it.peak.saturating_sub(it.resident);
        certificate.observe(ShapeNeed { shape: it.shape, need }).expect("a shape that holds something");
    }
    group.bench_function(BenchmarkId::new("query", n), |b| b.iter(|| certificate.bound(black_box(ASKED))));
}

/// The bound and the estimate.
fn predict(group: &mut BenchmarkGroup<'_, WallTime>, n: usize) {
    let predictor = taught(n);
    let resident = observation(ASKED).resident;
    group.bench_function(BenchmarkId::new("predict", n), |b| {
        b.iter(|| predictor.predict(KEY, black_box(ASKED), resident));
    });
}

/// What every step of a settled run does: it needs what it needed before.
fn observe_known(group: &mut BenchmarkGroup<'_, WallTime>, n: usize) {
    let mut predictor = taught(n);
    let known = observation(shapes(n).next().expect("at least one shape"));
    group.bench_function(BenchmarkId::new("observe_known", n), |b| {
        b.iter(|| predictor.observe(KEY, black_box(known)));
    });
}

/// What a step of a shape teaches that was never seen, while there is room for it.
fn observe_new(group: &mut BenchmarkGroup<'_, WallTime>) {
    let (predictor, new) = (taught(30), observation(ASKED));
    group.bench_function(BenchmarkId::new("observe_new", 30), |b| {
        b.iter_batched_ref(|| predictor.clone(), |it| it.observe(KEY, black_box(new)), BatchSize::SmallInput);
    });
}

/// What steps of ever other shapes teach after a thousand of them.
fn observe_evicting(group: &mut BenchmarkGroup<'_, WallTime>) {
    let (mut predictor, mut shapes) = (free(SEEN), free_shapes().skip(SEEN));
    group.bench_function(BenchmarkId::new("observe_evicting", SEEN), |b| {
        b.iter_batched(
            || observation(shapes.next().expect("there is no end of shapes")),
            |it| predictor.observe(KEY, black_box(it)),
            BatchSize::SmallInput,
        );
    });
}

/// What a policy asks after a step: all rungs of a ladder, of which nothing has changed.
fn decide(group: &mut BenchmarkGroup<'_, WallTime>) {
    let predictor = free(SEEN);
    group.bench_function(BenchmarkId::new("decide", SEEN), |b| b.iter(|| rungs_that_fit(&predictor)));
}

/// The same, after a step that has changed the bound of every rung.
fn decide_anew(group: &mut BenchmarkGroup<'_, WallTime>) {
    let predictor = free(SEEN);
    group.bench_function(BenchmarkId::new("decide_anew", SEEN), |b| {
        b.iter_batched_ref(|| predictor.clone(), |it| rungs_that_fit(it), BatchSize::SmallInput);
    });
}

/// Counts the rungs of a ladder of 60 that fit into a budget.
fn rungs_that_fit(predictor: &Predictor) -> usize {
    let fits = |n: &u32| {
        let it = predictor.predict(KEY, StepShape::new(black_box(*n), 128), Bytes::mib(12));
        it.is_some_and(|it| it.upper <= Bytes::gib(1))
    };
    (1..=60).filter(fits).count()
}

/// The edges of a lattice.
fn edges() -> impl Iterator<Item = u32> {
    (1..=24).map(|at| 16 * at)
}

/// Asks what a policy asks after a step: of each edge its largest batch, and the next one.
fn ask_all(predictor: &Predictor) -> Option<Bytes> {
    let asked = edges().flat_map(|edge| [6, 7].map(|n| StepShape::new(n, edge)));
    asked.filter_map(|shape| predictor.predict(KEY, black_box(shape), Bytes::mib(12))).map(|it| it.upper).max()
}

/// What a lattice has seen: on each edge batches of 2 and 5.
fn lattice() -> Predictor {
    let mut predictor = Predictor::try_new(PredictorConfig::default()).expect("valid defaults");
    for it in edges().flat_map(|edge| [2, 5].map(|n| observation(StepShape::new(n, edge)))) {
        predictor.observe(KEY, it).expect("a peak above what is resident");
    }
    predictor
}

/// What a settled run learns and asks after a step that took what it took before.
fn step_that_repeats(group: &mut BenchmarkGroup<'_, WallTime>) {
    let (mut predictor, read) = (lattice(), observation(StepShape::new(5, 192)));
    group.bench_function("step_that_repeats", |b| {
        b.iter(|| (predictor.observe(KEY, black_box(read)), ask_all(&predictor)));
    });
}

/// The same, after a step that took up to a ten-thousandth more.
fn step_that_trembles(group: &mut BenchmarkGroup<'_, WallTime>) {
    let (mut predictor, read) = (lattice(), observation(StepShape::new(5, 192)));
    let mut random = Random::new(0);
    group.bench_function("step_that_trembles", |b| {
        b.iter(|| {
            let peak = read.peak.0 + read.peak.0 / 10_000 * (random.next_u64() >> 48) / 65_536;
            let read = Observation { peak: Bytes(peak), ..read };
            (predictor.observe(KEY, black_box(read)), ask_all(&predictor))
        });
    });
}

/// The same, after a step of a shape that was never seen, and that tells something new.
fn step_of_a_new_shape(group: &mut BenchmarkGroup<'_, WallTime>) {
    let (predictor, new) = (lattice(), observation(StepShape::new(3, 200)));
    // Half a percent less than others allow.
    let peak = Bytes(predictor.predict(KEY, new.shape, Bytes::ZERO).expect("others were seen").upper.0 / 1000 * 985);
    let new = Observation { resident: Bytes::ZERO, peak, ..new };
    let warm = || {
        let it = predictor.clone();
        ask_all(&it);
        it
    };
    group.bench_function("step_of_a_new_shape", |b| {
        b.iter_batched_ref(warm, |it| (it.observe(KEY, black_box(new)), ask_all(it)), BatchSize::SmallInput);
    });
}

/// Returns a predictor that has seen so many free shapes, no two of them equal.
fn free(n: usize) -> Predictor {
    let mut predictor = Predictor::try_new(PredictorConfig::default()).expect("valid defaults");
    for it in free_shapes().take(n).map(observation) {
        predictor.observe(KEY, it).expect("a peak above what is resident");
    }
    predictor
}

/// Batches of 1 to 64 samples with lengths of 16 to 1039, in an order without a pattern.
fn free_shapes() -> impl Iterator<Item = StepShape> {
    // Odd, so that it visits each of 65 536 cells once.
    let cell = |i: u32| i.wrapping_mul(40_503) % 65_536;
    (0u32..).map(move |i| StepShape::new(1 + cell(i) % 64, 16 + cell(i) / 64))
}

fn taught(n: usize) -> Predictor {
    let mut predictor = Predictor::try_new(PredictorConfig::default()).expect("valid defaults");
    for it in shapes(n).map(observation) {
        predictor.observe(KEY, it).expect("a peak above what is resident");
    }
    predictor
}
