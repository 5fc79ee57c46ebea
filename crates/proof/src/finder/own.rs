//! The finder of this project, driven as a rule.

use std::cell::Cell;

use plimsoll_finder::{Finder, FinderConfig, Outcome as Trial, Search, Source};
use plimsoll_predict::{
    Correction, Dtype, Key, PartReading, Peak, Phase, Platform, Predictor, PredictorConfig, page_for,
};
use plimsoll_types::{Bytes, Fraction, Prediction, StepShape};

use super::oracle::{Oracle, Outcome, Reading};

/// With a dry run.
pub(crate) fn planned(oracle: &mut Oracle<'_>) -> u32 {
    let setting = oracle.setting();
    let mut finder = finder(oracle);
    let (mut correction, resident) = (Correction::default(), Cell::new(Bytes::ZERO));
    let noisy = |reserved: Bytes| {
        let above = reserved.saturating_sub(resident.get()).as_f64() * (1.0 + setting.noise.get());
        resident.get().saturating_add(Bytes::from_f64_ceil(above))
    };
    loop {
        let plan = |shape: StepShape| {
            let planned = oracle.plan(shape.samples)?;
            let (expected, upper) = (correction.expected(planned), noisy(correction.upper_of_next(planned)));
            Some(Prediction { expected, upper })
        };
        match finder.search(Source::Plan(&plan)) {
            Ok(Search::Try { batch, .. }) => {
                let (planned, outcome) = (oracle.plan(batch), oracle.step(batch));
                if let (Some(planned), Outcome::Fitted(Reading { resident: before, pool: Some(pool), .. })) =
                    (planned, outcome)
                {
                    let real = plimsoll_predict::Booked { reserved: pool.reserved, ..planned };
                    correction.observe(StepShape::new(batch, setting.edge), planned, real);
                    resident.set(before);
                }
                learn(&mut finder, batch, outcome);
            }
            Ok(Search::Found(found)) => return found.batch,
            Err(_) => return 0,
        }
    }
}

/// Without a dry run, as `plimsoll_plan` searches by real steps: by the bounds of its predictor.
pub(crate) fn probed(oracle: &mut Oracle<'_>) -> u32 {
    let rounding_margin = oracle.setting().noise.get();
    let predictor = Predictor::try_new(PredictorConfig { rounding_margin, ..PredictorConfig::default() });
    let mut predictor = predictor.expect("a margin that is a fraction");
    let (mut finder, mut own) = (finder(oracle), Bytes::ZERO);
    loop {
        match finder.search(Source::Probe(&|shape| predictor.predict(KEY, shape, own))) {
            Ok(Search::Try { batch, .. }) => {
                let outcome = oracle.step(batch);
                if let Outcome::Fitted(Reading { resident: before, peak, pool }) = outcome {
                    own = own.max(before);
                    let peak = match pool {
                        Some(pool) => Peak::Reserved { bytes: pool.reserved, page: page_for(pool.largest) },
                        None => Peak::Exact(peak),
                    };
                    let shape = StepShape::new(batch, oracle.setting().edge);
                    let read = PartReading { shape, before, peak, nodes: 0, packed: Bytes::ZERO };
                    predictor.observe_step(&[(KEY, read)], Bytes::ZERO).expect("a step that ran needed something");
                }
                learn(&mut finder, batch, outcome);
            }
            Ok(Search::Found(found)) => return found.batch,
            Err(_) => return 0,
        }
    }
}

/// All steps run the same kernels.
const KEY: Key = Key {
    phase: Phase::Train,
    checkpointing: false,
    platform: Platform { device: 0, dtype: Dtype::F32, fusion: false, autotune: false },
    regime: 0,
};

/// The whole budget and no reduction: the rules are compared at the same budget. No failure is allowed for.
fn finder(oracle: &Oracle<'_>) -> Finder {
    let setting = oracle.setting();
    let config = FinderConfig {
        extent: setting.edge.into(),
        batch_max: setting.batch_max,
        target: Fraction::ONE,
        batch_reduction: Fraction::ZERO,
        ..FinderConfig::default()
    };
    Finder::try_new(config, setting.budget).expect("a setting within the finder's ranges")
}

fn learn(finder: &mut Finder, batch: u32, outcome: Outcome) {
    let trial = match outcome {
        Outcome::Fitted(reading) => Trial::Measured { resident: reading.resident, peak: reading.peak },
        Outcome::OutOfMemory => Trial::OutOfMemory,
    };
    finder.on_trial(batch, trial).expect("a batch that the finder asked for, and a step that needed something");
}
