//! How long does the decision after a step take, once the run has settled?
//!
//! The time depends on where the run stands: at the top of the ladder nothing is asked; below, bounds of the rungs above
//! are.

use std::hint::black_box;

use criterion::{BenchmarkGroup, BenchmarkId, Criterion, measurement::WallTime};
use plimsoll_bench::run;
use plimsoll_policy::{Bounds, BucketedConfig, CertifiedConfig, Policy, PolicyConfig, Signal, StepMeasured, ladder};
use plimsoll_predict::{Dtype, Key, Phase, Platform, Predictor, PredictorConfig};
use plimsoll_proof::observation;
use plimsoll_types::{Budget, Bytes, Decision, KeepReason, Knobs, Ladder, Prediction, StepShape};

const PLATFORM: Platform = Platform { device: 0, dtype: Dtype::F32, fusion: false, autotune: false };
const KEY: Key = Key { phase: Phase::Train, checkpointing: false, platform: PLATFORM, regime: 0 };

/// Nine patch sizes and 21 more batch sizes: 30 rungs.
const SMALL: Bounds = Bounds { patch_min: 32, patch_max: 64, patch_multiple: 4, batch_min: 2, batch_max: 23 };

/// Shapes that a settled run has seen.
const N_OBSERVATIONS: usize = 10;

/// Well beyond the warm-up.
const STEP: u64 = 1000;

fn main() {
    run(|criterion: &mut Criterion| {
        let mut group = criterion.benchmark_group("policy");
        for bounds in [SMALL, Bounds::default()] {
            let ladder = ladder(&bounds).expect("valid bounds");
            let predictor = taught(&ladder);
            for (place, rung) in [("top", ladder.top()), ("middle", ladder.top() / 2), ("bottom", 0)] {
                step_done_at(&mut group, place, &Settled::new(bounds, &ladder, rung, &predictor), &predictor);
            }
        }
        step_done_of_edges(&mut group, &taught(&ladder(&Bounds::default()).expect("valid bounds")));
        group.finish();
    });
}

/// Sixteen edges, none of which is at its largest batch.
fn step_done_of_edges(group: &mut BenchmarkGroup<'_, WallTime>, predictor: &Predictor) {
    let edges: Vec<u32> = (1..=16).map(|i| i * 32).collect();
    let config = BucketedConfig { cells: edges.into(), batch_max: 1 << 12, ..BucketedConfig::default() };
    let mut policy = Policy::try_new(PolicyConfig::Bucketed(config)).expect("a valid configuration");
    let knobs = Knobs { patch_size: 32, micro_batch_size: 1 };
    let signal = |step| done(step, knobs, Bytes::gib(4));
    let predict = |shape| upper(predictor, shape);
    policy.on_signal(&signal(STEP), &predict);
    let signal = signal(STEP + 10);
    // Anything else would measure another path.
    let kept = Decision::Keep { reason: KeepReason::HighestCertified };
    assert_eq!(policy.on_signal(&signal, &predict), Some(kept), "{:?}", policy.batch_sizes());
    let sizes = policy.batch_sizes().expect("a size for each edge");
    assert!(sizes.iter().all(|size| (2..1 << 12).contains(size)), "{sizes:?}");
    group.bench_function(BenchmarkId::new("step_done_edges", sizes.len()), |b| {
        b.iter(|| policy.on_signal(black_box(&signal), &predict));
    });
}

fn step_done_at(group: &mut BenchmarkGroup<'_, WallTime>, place: &str, settled: &Settled, predictor: &Predictor) {
    let mut policy = settled.policy.clone();
    let n_rungs = policy.ladder().map_or(0, |it| it.rungs().len());
    let predict = |shape| upper(predictor, shape);
    group.bench_function(BenchmarkId::new(format!("step_done_{place}"), n_rungs), |b| {
        b.iter(|| policy.on_signal(black_box(&settled.signal), &predict));
    });
}

/// A run that stays at its rung, because the next one does not fit.
struct Settled {
    policy: Policy,
    signal: Signal,
}

impl Settled {
    fn new(bounds: Bounds, ladder: &Ladder, rung: usize, predictor: &Predictor) -> Self {
        let knobs = ladder.at(rung);
        let config = CertifiedConfig { bounds, start: Some(knobs), ..CertifiedConfig::default() };
        let bound = upper(predictor, knobs.shape()).expect("something was learnt").upper;
        let budget = Bytes::from_f64_ceil(bound.as_f64() / config.raise_below);
        let signal = done(STEP, knobs, budget);
        let mut policy = Policy::try_new(PolicyConfig::Certified(config)).expect("valid defaults");
        let predict = |shape| upper(predictor, shape);
        let decision = (0..10).filter_map(|_| policy.on_signal(&signal, &predict)).last();
        // Anything else would measure another path.
        assert_eq!(decision, Some(Decision::Keep { reason: KeepReason::HighestCertified }), "at rung {rung}");
        Self { policy, signal }
    }
}

/// A step with the peak that its knobs need.
fn done(step: u64, knobs: Knobs, budget: Bytes) -> Signal {
    let shape = knobs.shape();
    let (peak, budget) = (observation(shape).peak, Budget { capacity: budget, budget });
    Signal::Done(StepMeasured { step, knobs, is_divided: false, highest: Some(shape), peak, budget })
}

fn taught(ladder: &Ladder) -> Predictor {
    let mut predictor = Predictor::try_new(PredictorConfig::default()).expect("valid defaults");
    for i in 0..N_OBSERVATIONS {
        let rung = ladder.at(ladder.top() * i / (N_OBSERVATIONS - 1));
        predictor.observe(KEY, observation(rung.shape())).expect("a peak above what is resident");
    }
    predictor
}

fn upper(predictor: &Predictor, shape: StepShape) -> Option<Prediction> {
    predictor.predict(KEY, shape, observation(shape).resident)
}
