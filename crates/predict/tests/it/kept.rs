//! Steps that keep: what was kept is no need of the next step.

use plimsoll_predict::{Key, PartReading, Phase, Platform, Predictor, PredictorConfig};
use plimsoll_types::{Bytes, Observation, StepShape};

fn key() -> Key {
    Key { phase: Phase::Train, checkpointing: false, platform: Platform::default(), regime: 0 }
}

/// Returns a reading of 20 MiB.
fn known(shape: StepShape) -> Observation {
    Observation { shape, resident: Bytes::mib(64), peak: Bytes::mib(84) }
}

/// Returns the readings of a step's parts, each on top of what was in use before it, all in MiB.
fn step<const N: usize>(parts: [(StepShape, u64, u64); N]) -> [(Key, PartReading); N] {
    parts.map(|(shape, before, need)| {
        (key(), Observation { shape, resident: Bytes::mib(before), peak: Bytes::mib(before + need) }.into())
    })
}

#[test]
fn what_a_first_step_keeps_is_above_no_bound_and_what_it_needs_beyond_that_is() {
    let shape = StepShape::new(4, 16);
    let first = |need: u64| {
        let mut predictor = Predictor::try_new(PredictorConfig::default()).unwrap();
        predictor.observe(key(), known(shape)).unwrap();
        // The first step makes 48 MiB of optimizer's state, which was there when the bound was learnt.
        let kept = Bytes::mib(48);
        predictor.observe_step(&step([(shape, 16, 48 + need)]), kept).unwrap().len()
    };
    assert_eq!((first(20), first(22)), (0, 1));
}

#[test]
fn a_first_step_is_held_against_its_own_parts_without_what_it_keeps() {
    let [large, small] = [StepShape::new(8, 16), StepShape::new(4, 16)];
    // The first part leaves 16 MiB of gradients, and the window of the last holds the optimizer's step: 48 MiB are kept.
    for (parts, n) in [
        (step([(small, 16, 20), (small, 32, 60)]).to_vec(), 0),
        (step([(small, 16, 20), (small, 32, 70)]).to_vec(), 1),
        (step([(small, 16, 20), (small, 32, 20), (small, 32, 67)]).to_vec(), 0),
        (step([(small, 16, 20), (small, 32, 20), (small, 32, 70)]).to_vec(), 1),
        (step([(large, 16, 40), (small, 32, 60)]).to_vec(), 0),
    ] {
        let mut predictor = Predictor::try_new(PredictorConfig::default()).unwrap();
        let told = predictor.observe_step(&parts, Bytes::mib(48)).unwrap();
        assert_eq!(told.len(), n, "{told:?} of {parts:?}");
        // Nobody knows how much of what the last part took was kept.
        let (_, last) = parts[parts.len() - 1];
        let upper = predictor.predict(key(), last.shape, last.before).unwrap().upper;
        assert!(parts.len() > 2 || last.peak.bytes() <= upper, "at most {upper} after {parts:?}");
    }
}

#[test]
fn a_part_that_keeps_nothing_teaches_what_it_needs_whatever_its_step_keeps() {
    let shape = StepShape::new(4, 16);
    let mut predictor = Predictor::try_new(PredictorConfig::default()).unwrap();
    predictor.observe(key(), known(shape)).unwrap();
    let parts = step([(shape, 16, 20), (shape, 32, 22), (shape, 32, 20)]);
    // The optimizer keeps 48 MiB, and the part in the middle needs a tenth more than is known, without anything of that.
    let told = predictor.observe_step(&parts, Bytes::mib(48)).unwrap();
    assert_eq!(told.iter().map(|it| it.peak).collect::<Vec<_>>(), [Bytes::mib(54)]);
    assert!(Bytes::mib(54) <= predictor.predict(key(), shape, Bytes::mib(32)).unwrap().upper);
    // What it leaves in use is what it kept itself.
    let mut keeps = Predictor::try_new(PredictorConfig::default()).unwrap();
    keeps.observe(key(), known(shape)).unwrap();
    let parts = step([(shape, 16, 20), (shape, 32, 22), (shape, 34, 20)]);
    assert_eq!(keeps.observe_step(&parts, Bytes::mib(48)).unwrap(), []);
}
