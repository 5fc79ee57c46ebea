//! The choice of trials, against programs whose largest batches are known.

use plimsoll_predict::{Explorer, Key, Phase, Platform, Predictor, PredictorConfig, Probe, StopReason};
use plimsoll_types::{Bytes, Observation, Prediction, StepShape};

use super::program::{MAX_EDGE, Program};
use super::rng::Rng;

const MAX_BATCH: u32 = 256;

/// Batches of each row: one apart up to 16, and eight to a doubling above.
fn batches() -> Vec<u32> {
    let next = |batch: &u32| Some(batch + (1 << batch.ilog2().saturating_sub(3))).filter(|it| *it <= MAX_BATCH);
    std::iter::successors(Some(1), next).collect()
}

/// How a search on one program went.
struct Search {
    n_trials: usize,
    n_above_budget: usize,
    /// Certified batch over the largest that fits, for each row.
    shares: Vec<f64>,
}

fn search(seed: u64, n_rows: u32, max_trials: u32) -> (Search, StopReason) {
    let mut rng = Rng::new(seed);
    let program = Program::random(&mut rng);
    let peak = |shape| program.run(shape).in_use.expect("programs tell their peak");
    let budget = Bytes::from_f64_ceil(peak(StepShape::new(1, MAX_EDGE)).as_f64() * rng.log_uniform(1.5, 100.0));
    let (edges, batches) = ((1..=n_rows).map(|row| MAX_EDGE * row / n_rows), batches());
    let cells = edges.flat_map(|edge| batches.iter().map(move |samples| StepShape::new(*samples, edge)));
    let mut steps = Steps::new(Bytes(program.resident));
    let mut explorer = Explorer::try_new(cells, budget, max_trials).expect("a cell");
    let mut n_above_budget = 0;
    let reason = loop {
        match explorer.probe(|shape| steps.predict(shape)) {
            Probe::Stop(reason) => break reason,
            Probe::Measure(shape) => {
                n_above_budget += usize::from(peak(shape) > budget);
                steps.observe(shape, peak(shape));
                explorer.on_trial_done(shape, |shape| steps.predict(shape));
            }
        }
    };
    let fits = |edge: u32| batches.iter().rev().find(move |it| peak(StepShape::new(**it, edge)) <= budget);
    let certified = explorer.certified(|shape| steps.predict(shape));
    let shares = certified
        .iter()
        .map(|it| f64::from(it.samples) / f64::from(*fits(it.edge()).expect("one sample fits")))
        .collect();
    (Search { n_trials: explorer.n_trials(), n_above_budget, shares }, reason)
}

struct Steps {
    predictor: Predictor,
    resident: Bytes,
}

impl Steps {
    const KEY: Key = Key {
        phase: Phase::Train,
        checkpointing: false,
        platform: Platform { device: 0, dtype: plimsoll_predict::Dtype::F32, fusion: false, autotune: false },
        regime: 0,
    };

    fn new(resident: Bytes) -> Self {
        Self { predictor: Predictor::try_new(PredictorConfig::default()).expect("defaults are in range"), resident }
    }

    fn predict(&self, shape: StepShape) -> Option<Prediction> {
        self.predictor.predict(Self::KEY, shape, self.resident)
    }

    fn observe(&mut self, shape: StepShape, peak: Bytes) {
        let observation = Observation { shape, resident: self.resident, peak };
        self.predictor.observe(Self::KEY, observation).expect("a step needs something");
    }
}

#[test]
fn no_trial_leaves_the_budget_and_few_trials_certify_nearly_all_that_fits() {
    for (n_rows, n_programs, most_trials, least_mean) in [(1, 150, 3, 0.995), (16, 40, 11, 0.985)] {
        let searches: Vec<Search> = (0..n_programs).map(|seed| search(seed, n_rows, 60).0).collect();
        let shares: Vec<f64> = searches.iter().flat_map(|it| it.shares.clone()).collect();
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        let n_trials = searches.iter().map(|it| it.n_trials).max();
        assert_eq!(searches.iter().map(|it| it.n_above_budget).sum::<usize>(), 0);
        assert_eq!(shares.len(), searches.len() * n_rows as usize, "each row has a certified batch");
        assert!(shares.iter().all(|it| *it <= 1.0), "and none is certified that does not fit");
        assert!(n_trials <= Some(most_trials) && mean >= least_mean, "{n_rows} rows: {n_trials:?} trials, {mean}");
    }
}

#[test]
fn the_search_ends_when_its_trials_are_used_up() {
    for seed in 0..15 {
        let (unlimited, limited) = (search(seed, 16, 60), search(seed, 16, 3));
        let expected = if unlimited.0.n_trials > 3 { StopReason::TrialCap } else { StopReason::Converged };
        assert_eq!((limited.0.n_trials, limited.1), (unlimited.0.n_trials.min(3), expected), "program {seed}");
    }
}
