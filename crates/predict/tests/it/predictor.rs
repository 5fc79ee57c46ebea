//! Properties of the predictor: margins, violations, regimes and state.

use plimsoll_predict::{Dtype, Key, PartReading, Peak, Phase, Platform, PredictError, Predictor, PredictorConfig};
use plimsoll_types::{Bytes, Features, Observation, StepShape};
use proptest::prelude::*;

const PLATFORM: Platform = Platform { device: 0, dtype: Dtype::F32, fusion: false, autotune: false };
pub(crate) const KEY: Key = Key { phase: Phase::Train, checkpointing: false, platform: PLATFORM, regime: 0 };
const RESIDENT: Bytes = Bytes::mib(64);

pub(crate) fn predictor(config: PredictorConfig) -> Predictor {
    Predictor::try_new(config).expect("the settings are in range")
}

pub(crate) fn observation(shape: StepShape, need: Bytes) -> Observation {
    Observation { shape, resident: RESIDENT, peak: RESIDENT.saturating_add(need) }
}

pub(crate) fn upper(predictor: &Predictor, shape: StepShape) -> Bytes {
    predictor.predict(KEY, shape, Bytes::ZERO).expect("there is an observation").upper
}

/// What a step needs whose live bytes at each instant are a combination of features.
pub(crate) fn need(program: &[[f64; 6]], shape: StepShape) -> Bytes {
    let values = Features::default().of(shape);
    let at = |theta: &[f64; 6]| theta.iter().zip(values).map(|(a, b)| a * b).sum::<f64>();
    Bytes::from_f64_ceil(program.iter().map(at).fold(0.0, f64::max))
}

fn any_shape() -> impl Strategy<Value = StepShape> {
    (1..=64u32, 1..=256u32).prop_map(|(samples, edge)| StepShape::new(samples, edge))
}

/// Of more than one sample: what single samples showed may be less than batches take, and then it alone is lifted.
fn any_batch() -> impl Strategy<Value = StepShape> {
    (2..=64u32, 1..=256u32).prop_map(|(samples, edge)| StepShape::new(samples, edge))
}

/// Readings that need not belong to any program: they contradict each other and violate bounds.
fn any_readings() -> impl Strategy<Value = Vec<(StepShape, Bytes)>> {
    prop::collection::vec((any_shape(), (1 << 20..1u64 << 36).prop_map(Bytes)), 1..24)
}

fn any_config() -> impl Strategy<Value = PredictorConfig> {
    (0.0..0.1, 1.0..4.0, prop::sample::select(vec![0, 2 << 20])).prop_map(|(rounding_margin, regime_margin, beside)| {
        PredictorConfig { rounding_margin, regime_margin, beside: Bytes(beside), ..PredictorConfig::default() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_observed_peak_is_ever_above_its_upper_bound(config in any_config(), readings in any_readings()) {
        let mut predictor = predictor(config);
        for at in 0..readings.len() {
            let (shape, need) = readings[at];
            predictor.observe(KEY, observation(shape, need)).unwrap();
            for (shape, need) in &readings[..=at] {
                prop_assert!(upper(&predictor, *shape) >= *need, "{shape}: {} < {}", upper(&predictor, *shape).0, need.0);
            }
        }
    }

    #[test]
    fn a_fixed_program_never_violates_its_bound(
        config in any_config(), program in prop::collection::vec(prop::array::uniform6(1.0..1e6), 1..6),
        shapes in prop::collection::vec(any_shape(), 2..24),
    ) {
        let mut predictor = predictor(config);
        for shape in shapes {
            let need = need(&program, shape);
            prop_assert!(!predictor.observe(KEY, observation(shape, need)).unwrap().violated, "{shape}");
            let tight = need.as_f64() * (1.0 + config.rounding_margin) + config.beside.as_f64();
            prop_assert!((upper(&predictor, shape).as_f64() / tight - 1.0).abs() < 1e-4, "{shape}");
        }
    }

    #[test]
    fn the_order_of_observations_of_a_fixed_program_does_not_matter(
        config in any_config(), program in prop::collection::vec(prop::array::uniform6(1.0..1e6), 1..6),
        (shapes, shuffled) in prop::collection::vec(any_shape(), 2..24).prop_flat_map(|it| (Just(it.clone()), Just(it).prop_shuffle())),
        asked in any_shape(),
    ) {
        let taught = |shapes: Vec<StepShape>| {
            let mut predictor = predictor(config);
            for shape in shapes {
                predictor.observe(KEY, observation(shape, need(&program, shape))).unwrap();
            }
            predictor.predict(KEY, asked, RESIDENT).unwrap()
        };
        let (one, other) = (taught(shapes), taught(shuffled));
        prop_assert!((one.upper.as_f64() / other.upper.as_f64() - 1.0).abs() < 1e-6, "{} and {}", one.upper, other.upper);
        prop_assert!((one.expected.as_f64() / other.expected.as_f64() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn another_observation_of_a_fixed_program_never_raises_an_upper_bound(
        config in any_config(), program in prop::collection::vec(prop::array::uniform6(1.0..1e6), 1..6),
        shapes in prop::collection::vec(any_shape(), 2..24), asked in prop::collection::vec(any_shape(), 8),
    ) {
        let mut predictor = predictor(config);
        predictor.observe(KEY, observation(shapes[0], need(&program, shapes[0]))).unwrap();
        for shape in &shapes[1..] {
            let before: Vec<_> = asked.iter().map(|it| upper(&predictor, *it)).collect();
            predictor.observe(KEY, observation(*shape, need(&program, *shape))).unwrap();
            for (asked, before) in asked.iter().zip(before) {
                let after = upper(&predictor, *asked).as_f64();
                prop_assert!(after <= before.as_f64() * (1.0 + 1e-6), "{asked}: {after} > {before}");
            }
        }
    }

    #[test]
    fn a_larger_shape_never_has_a_smaller_prediction(
        config in any_config(), readings in any_readings(), asked in any_shape(), more in (0..64u32, 0..64u32),
    ) {
        let mut predictor = predictor(config);
        for (shape, need) in readings {
            predictor.observe(KEY, observation(shape, need)).unwrap();
        }
        let larger = StepShape::new(asked.samples + more.0, asked.edge() + more.1);
        let [small, large] = [asked, larger].map(|it| predictor.predict(KEY, it, RESIDENT).unwrap());
        prop_assert!(small.upper.as_f64() <= large.upper.as_f64() * (1.0 + 1e-8));
        prop_assert!(small.expected.as_f64() <= large.expected.as_f64() * (1.0 + 1e-8));
    }

    #[test]
    fn a_violated_certificate_lifts_the_whole_key_at_once(
        config in any_config(), program in prop::collection::vec(prop::array::uniform6(1.0..1e6), 1..6),
        seen in prop::collection::vec(any_batch(), 1..24), shape in any_shape(), times in 1.01..20.0f64, asked in any_shape(),
    ) {
        let mut predictor = predictor(config);
        for seen in seen {
            predictor.observe(KEY, observation(seen, need(&program, seen))).unwrap();
        }
        let (at_shape, at_asked) = (upper(&predictor, shape), upper(&predictor, asked));
        let need = Bytes::from_f64_ceil(at_shape.as_f64() * times).saturating_add(Bytes(1));
        let residual = predictor.observe(KEY, observation(shape, need)).unwrap();
        prop_assert!(residual.violated);
        let above = |size: Bytes| size.saturating_sub(config.beside).as_f64();
        let grown = above(at_asked) * above(need) / above(at_shape);
        prop_assert!(above(upper(&predictor, asked)) >= grown * (1.0 - 1e-5));
        prop_assert!(upper(&predictor, shape) >= need);
    }

    #[test]
    fn a_batch_above_what_single_samples_bound_is_bounded_from_then_on_and_no_bound_falls(
        config in any_config(), program in prop::collection::vec(prop::array::uniform6(1.0..1e6), 1..6), alone in 1..=256u32,
        seen in prop::collection::vec(any_shape(), 0..24), shape in any_batch(), times in 1.01..20.0f64, asked in any_shape(),
    ) {
        let mut predictor = predictor(config);
        for seen in std::iter::once(StepShape::new(1, alone)).chain(seen) {
            predictor.observe(KEY, observation(seen, need(&program, seen))).unwrap();
        }
        let (at_shape, at_asked) = (upper(&predictor, shape), upper(&predictor, asked));
        let need = Bytes::from_f64_ceil(at_shape.as_f64() * times).saturating_add(Bytes(1));
        prop_assert!(predictor.observe(KEY, observation(shape, need)).unwrap().violated);
        prop_assert!(upper(&predictor, shape) >= need);
        prop_assert!(upper(&predictor, asked).as_f64() >= at_asked.as_f64() * (1.0 - 1e-6));
    }

    #[test]
    fn the_expected_peak_lies_between_the_lower_and_the_upper_bound(readings in any_readings(), asked in any_shape()) {
        let mut predictor = predictor(PredictorConfig::default());
        for (shape, need) in &readings {
            predictor.observe(KEY, observation(*shape, *need)).unwrap();
        }
        let covered = readings.iter().filter(|it| asked.covers(it.0)).map(|it| it.1).max().unwrap_or_default();
        let prediction = predictor.predict(KEY, asked, RESIDENT).unwrap();
        prop_assert!(prediction.expected <= prediction.upper);
        prop_assert!(prediction.expected >= RESIDENT.saturating_add(covered));
    }

    #[test]
    fn a_restored_predictor_equals_the_saved_one(readings in any_readings(), regimes in prop::collection::vec(0..3u16, 24)) {
        let mut saved = predictor(PredictorConfig::default());
        for ((shape, need), regime) in readings.into_iter().zip(regimes) {
            saved.observe(Key { regime, ..KEY }, observation(shape, need)).unwrap();
        }
        let text = serde_json::to_string(&saved).unwrap();
        prop_assert_eq!(serde_json::from_str::<Predictor>(&text).unwrap(), saved);
    }

    #[test]
    fn nothing_panics_at_the_ends_of_the_range(
        observed in prop::collection::vec((prop::sample::select(vec![0, 1, u32::MAX]), prop::sample::select(vec![0, 3, u32::MAX]),
            prop::sample::select(vec![0, 5, u64::MAX]), prop::sample::select(vec![0, 6, u64::MAX - 1, u64::MAX])), 1..12),
        asked in (any::<u32>(), any::<u32>()), beside in prop::sample::select(vec![0, u64::MAX - 3, u64::MAX]),
    ) {
        let mut predictor = predictor(PredictorConfig { beside: Bytes(beside), ..PredictorConfig::default() });
        for (samples, edge, resident, peak) in observed {
            let observation = Observation { shape: StepShape::new(samples, edge), resident: Bytes(resident), peak: Bytes(peak) };
            let refused = samples == 0 || edge == 0 || peak <= resident;
            prop_assert_eq!(predictor.observe(KEY, observation).is_err(), refused);
        }
        if let Some(it) = predictor.predict(KEY, StepShape::new(asked.0, asked.1), Bytes(u64::MAX - 9)) {
            prop_assert!(it.expected <= it.upper);
        }
    }
}

#[test]
fn regimes_do_not_mix() {
    let mut predictor = predictor(PredictorConfig::default());
    let other = Key { regime: 1, ..KEY };
    let (small, large) = (StepShape::new(4, 32), StepShape::new(8, 32));
    predictor.observe(KEY, observation(small, Bytes::mib(10))).unwrap();
    let alone = predictor.predict(KEY, large, RESIDENT);
    let residual = predictor.observe(other, observation(large, Bytes::mib(500))).unwrap();
    assert!(!residual.violated, "a borrowed bound cannot be violated");
    assert_eq!(predictor.predict(KEY, large, RESIDENT), alone);
    assert!(
        predictor
            .predict(other, small, RESIDENT)
            .is_some_and(|it| it.upper >= RESIDENT.saturating_add(Bytes::mib(500)))
    );
}

#[test]
fn an_unseen_regime_borrows_the_largest_bound_of_its_siblings_times_the_margin() {
    let mut predictor = predictor(PredictorConfig { rounding_margin: 0.0, ..PredictorConfig::default() });
    let shape = StepShape::new(4, 32);
    predictor.observe(Key { regime: 1, ..KEY }, observation(shape, Bytes::mib(10))).unwrap();
    predictor.observe(Key { regime: 2, ..KEY }, observation(shape, Bytes::mib(20))).unwrap();
    predictor.observe(Key { checkpointing: true, ..KEY }, observation(shape, Bytes::mib(90))).unwrap();
    let borrowed = predictor.predict(KEY, shape, Bytes::ZERO).unwrap();
    assert_eq!(borrowed.expected, Bytes::mib(20));
    assert!((Bytes::mib(60)..Bytes::mib(61)).contains(&borrowed.upper), "{}", borrowed.upper);
    assert_eq!(predictor.predict(Key { phase: Phase::Infer, ..KEY }, shape, Bytes::ZERO), None);
    let fused = Platform { fusion: true, ..PLATFORM };
    assert_eq!(predictor.predict(Key { platform: fused, ..KEY }, shape, Bytes::ZERO), None);
}

#[test]
fn a_reading_within_the_margins_is_no_violation_and_one_above_is() {
    let config = PredictorConfig { beside: Bytes::mib(2), ..PredictorConfig::default() };
    let (shape, seen) = (StepShape::new(4, 32), Bytes::mib(100));
    for (need, violated) in [(100, false), (103, false), (104, true)] {
        let mut predictor = predictor(config);
        assert_eq!(predictor.observe(KEY, observation(shape, seen)).unwrap().predicted, None);
        let residual = predictor.observe(KEY, observation(shape, Bytes::mib(need))).unwrap();
        assert_eq!(residual.violated, violated, "{need} MiB");
        assert!(residual.ratio.is_some_and(|it| (it - need as f64 / 100.0).abs() < 1e-6), "{:?}", residual.ratio);
    }
}

#[test]
fn a_forgotten_key_knows_nothing() {
    let mut predictor = predictor(PredictorConfig::default());
    predictor.observe(KEY, observation(StepShape::new(4, 32), Bytes::mib(10))).unwrap();
    predictor.forget(KEY);
    assert_eq!(predictor.predict(KEY, StepShape::new(4, 32), RESIDENT), None);
}

#[test]
fn what_is_refused_says_why_and_changes_nothing() {
    let mut predictor = predictor(PredictorConfig::default());
    let shape = StepShape::new(4, 32);
    let refused = Observation { shape, resident: Bytes::mib(3), peak: Bytes::mib(2) };
    let error = predictor.observe(KEY, refused).unwrap_err();
    assert_eq!(
        error.to_string(),
        "learn from a step of shape 4 × 32: its peak of 2.00 MiB is not above the resident 3.00 MiB"
    );
    let error = predictor.observe(KEY, observation(StepShape::new(0, 32), Bytes::mib(1))).unwrap_err();
    assert_eq!(error, PredictError::EmptyShape(StepShape::new(0, 32)));
    assert_eq!(predictor.predict(KEY, shape, RESIDENT), None);
}

#[test]
fn a_setting_out_of_range_is_named() {
    for (config, message) in [
        (
            PredictorConfig { rounding_margin: -0.5, ..PredictorConfig::default() },
            "`rounding_margin` is -0.5, but must be between 0 and 1",
        ),
        (
            PredictorConfig { regime_margin: f64::NAN, ..PredictorConfig::default() },
            "`regime_margin` is NaN, but must be between 1 and 100",
        ),
    ] {
        assert_eq!(Predictor::try_new(config).unwrap_err().to_string(), message);
    }
    assert!(serde_json::from_str::<Predictor>(r#"{"config":{"regime_margin":0.5},"models":[]}"#).is_err());
}

#[test]
fn a_predictor_that_lacks_what_its_keys_must_say_is_refused() {
    let mut taught = predictor(PredictorConfig::default());
    taught.observe(KEY, observation(StepShape::new(4, 32), Bytes::mib(1))).unwrap();
    let mut text: serde_json::Value = serde_json::to_value(taught).unwrap();
    text["models"][0][0].as_object_mut().unwrap().remove("platform").unwrap();
    let error = serde_json::from_value::<Predictor>(text).unwrap_err();
    assert_eq!(error.to_string(), "missing field `platform`");
}

#[test]
fn reserved_bytes_bound_a_shape_that_has_neither_run_nor_been_planned() {
    let mut predictor = predictor(PredictorConfig::default());
    let (seen, unseen, before) = (StepShape::new(8, 32), StepShape::new(16, 32), Bytes::mib(100));
    let peak = Peak::Reserved { bytes: Bytes::mib(260), page: Bytes::mib(2) };
    let part = PartReading { shape: seen, before, peak, nodes: 0, packed: Bytes::ZERO };
    assert_eq!(predictor.observe_step(&[(KEY, part)], Bytes::ZERO).unwrap(), []);
    let upper = predictor.predict(KEY, unseen, before).expect("one reading is enough").upper;
    // Twice the 160 MiB above what is resident, 1 % of all, and half of what the shape needs for half a page.
    let least = Bytes::from_f64_ceil(420.0 * 1.01 * f64::from(1 << 20)).saturating_add(Bytes::mib(160));
    assert!((least..=least.saturating_add(Bytes::mib(2))).contains(&upper), "{upper}");
    assert_eq!([seen, unseen].map(|it| predictor.is_planned(KEY, it)), [true, false]);
    // Pages say nothing of steps without gradients.
    assert_eq!(predictor.predict(Key { phase: Phase::Infer, ..KEY }, unseen, before), None);
}

/// As an NVIDIA H100 was read: steps that make larger pages have the next validation open one as large.
#[test]
fn pages_that_training_has_made_larger_are_room_that_a_validation_may_take() {
    let mut predictor = predictor(PredictorConfig::default());
    let (resident, validation) = (Bytes(267_512), Key { phase: Phase::Infer, ..KEY });
    let mut read = |key, shape, [bytes, page]: [u64; 2]| {
        let part = PartReading {
            shape,
            before: resident,
            peak: Peak::Reserved { bytes: Bytes(bytes), page: Bytes(page) },
            nodes: 0,
            packed: Bytes::ZERO,
        };
        predictor.observe_step(&[(key, part)], Bytes::ZERO).unwrap()
    };
    let validated = StepShape::new(4, 64);
    assert!(read(validation, validated, [14_795_264, 8 << 20]).is_empty());
    assert!(read(KEY, StepShape::new(32, 32), [112_200_704, 34_603_008]).is_empty());
    assert_eq!(read(validation, validated, [42_991_616, 34_603_008]), []);
    let upper = |key, shape| predictor.predict(key, shape, resident).unwrap().upper;
    assert!(Bytes(42_991_616 + 34_603_008) <= upper(validation, validated));
    let elsewhere = Platform { device: 1, ..PLATFORM };
    assert_eq!(predictor.predict(Key { platform: elsewhere, ..validation }, validated, resident), None);
}
