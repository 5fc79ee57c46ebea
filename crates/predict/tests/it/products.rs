//! What is packed for products of matrices: no combination of features either.

use plimsoll_predict::{Dtype, Key, PartReading, Phase, Platform, Predictor, PredictorConfig};
use plimsoll_types::{Bytes, Features, Observation, StepShape};
use proptest::prelude::*;

const PLATFORM: Platform = Platform { device: 0, dtype: Dtype::F32, fusion: false, autotune: false };
const KEY: Key = Key { phase: Phase::Train, checkpointing: false, platform: PLATFORM, regime: 0 };

/// A product summed over something that grows with a shape.
#[derive(Clone, Copy, Debug)]
struct Product {
    /// What its depth is for each unit of a feature, and which.
    depth: (u32, usize),
    /// The longest piece into which the depth is cut.
    longest: u32,
    /// What is packed for each unit of a piece.
    width: u32,
}

/// Tensors at one moment, in bytes per feature, and the product that is worked out just then.
type Moment = (Vec<f64>, Product);

impl Product {
    fn packed(&self, features: &Features, shape: StepShape) -> f64 {
        let depth = (f64::from(self.depth.0) * features.of(shape)[self.depth.1]).round().max(1.0);
        depth / (depth / f64::from(self.longest)).ceil() * f64::from(self.width)
    }
}

/// Returns what a step needs, and the most that it packs.
fn need(features: &Features, program: &[Moment], shape: StepShape) -> (Bytes, Bytes) {
    let tensors = |theta: &[f64]| theta.iter().zip(features.of(shape)).map(|(a, b)| a * b).sum::<f64>();
    let packed = |it: &Moment| it.1.packed(features, shape);
    let most = program.iter().map(packed).fold(0.0, f64::max);
    let peak = program.iter().map(|it| tensors(&it.0) + packed(it)).fold(1.0, f64::max);
    (Bytes::from_f64_ceil(peak), Bytes::from_f64_ceil(most))
}

fn any_moment(n_features: usize) -> impl Strategy<Value = Moment> {
    let coefficient = prop_oneof![Just(0.0), (0.0..5.0f64).prop_map(|power| 10f64.powf(power))];
    let product = ((1..=64u32, 1..n_features), prop_oneof![Just(512u32), Just(1024)], 0..=40_000u32)
        .prop_map(|(depth, longest, width)| Product { depth, longest, width });
    (prop::collection::vec(coefficient, n_features), product)
}

fn any_shapes(most: usize) -> impl Strategy<Value = Vec<StepShape>> {
    prop::collection::vec((1..=2048u32, 1..=64u32).prop_map(|(n, edge)| StepShape::new(n, edge)), 1..=most)
}

proptest! {
    #[test]
    fn nothing_needs_more_than_its_bound_with_what_is_packed_on_top(
        program in prop::collection::vec(any_moment(Features::complete(1).len()), 1..5),
        seen in any_shapes(6),
        asked in any_shapes(8),
    ) {
        let config = PredictorConfig { rounding_margin: 0.0, ..PredictorConfig::default() };
        let (features, mut predictor) = (config.features, Predictor::try_new(config).expect("in range"));
        let packed = seen.iter().map(|it| need(&features, &program, *it).1).max().unwrap_or_default();
        predictor.note_packed(packed);
        for shape in seen {
            let (peak, _) = need(&features, &program, shape);
            let read = PartReading::from(Observation { shape, resident: Bytes::ZERO, peak });
            let violated = predictor.observe_step(&[(KEY, read)], Bytes::ZERO).expect("a shape of one axis");
            prop_assert!(violated.is_empty(), "{violated:?}");
        }
        for shape in asked {
            let (peak, upper) = (need(&features, &program, shape).0, predictor.predict(KEY, shape, Bytes::ZERO));
            let upper = upper.expect("there is a reading").upper;
            prop_assert!(peak <= upper.saturating_add(Bytes(2)), "{shape:?}: {peak} of {upper}");
        }
    }
}

#[test]
fn without_it_a_smaller_batch_needs_more_than_the_bound_from_a_larger_one() {
    let config = PredictorConfig::default();
    let [small, large] = [512, 520].map(|n| StepShape::new(n, 1));
    // Summed over the samples, the fourth feature of one axis.
    let product = Product { depth: (1, 3), longest: 512, width: 8192 };
    let needed = |shape| need(&config.features, &[(vec![0.0, 0.0, 0.0, 1000.0], product)], shape);
    let upper = |packed| {
        let mut predictor = Predictor::try_new(config).expect("in range");
        let read = Observation { shape: large, resident: Bytes::ZERO, peak: needed(large).0 };
        predictor.observe(KEY, PartReading::from(read).with_packed(packed)).expect("it holds something");
        predictor.predict(KEY, small, Bytes::ZERO).expect("there is a reading").upper
    };
    assert!(upper(Bytes::ZERO) < needed(small).0);
    assert!(needed(small).0 <= upper(needed(large).1));
}
