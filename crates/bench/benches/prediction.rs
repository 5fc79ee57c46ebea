//! How long does a prediction take, and how long the lesson of a step?

use std::hint::black_box;

use criterion::{BenchmarkGroup, BenchmarkId, Criterion, measurement::WallTime};
use plimsoll_bench::{observation, run, shapes};
use plimsoll_predict::{Certificate, Dtype, Key, Phase, Platform, Predictor, PredictorConfig, ShapeNeed};
use plimsoll_types::StepShape;

const PLATFORM: Platform = Platform { device: 0, dtype: Dtype::F32, fusion: false, autotune: false };
const KEY: Key = Key { phase: Phase::Train, checkpointing: false, platform: PLATFORM, regime: 0 };

/// Distinct shapes learnt: after the first step, in a settled run, and after many failures and ragged tails.
const OBSERVATIONS: [usize; 3] = [1, 10, 30];

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

fn taught(n: usize) -> Predictor {
    let mut predictor = Predictor::try_new(PredictorConfig::default()).expect("valid defaults");
    for it in shapes(n).map(observation) {
        predictor.observe(KEY, it).expect("a peak above what is resident");
    }
    predictor
}
